"""The kinds of Iceberg files, and the kind that a file name suggests.

A name is good enough for statistics, and never proof of anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc


class IcebergKind(StrEnum):
    """One kind of file, by the name that the command line shows."""

    METADATA = "metadata"
    METADATA_LOG = "metadata-log"
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    DATA = "data"
    POSITION_DELETE = "position-delete"
    EQUALITY_DELETE = "equality-delete"
    DELETION_VECTOR = "deletion-vector"
    STATISTICS = "statistics"
    PARTITION_STATISTICS = "partition-statistics"
    VIEW_METADATA = "view-metadata"
    VERSION_HINT = "version-hint"


#: Data, and what hides rows of it.
CONTENT_KINDS = (
    IcebergKind.DATA,
    IcebergKind.POSITION_DELETE,
    IcebergKind.EQUALITY_DELETE,
    IcebergKind.DELETION_VECTOR,
)

#: The version in the name of a metadata file, as the group `number`.
METADATA_VERSION = r"(?:^|/)v?(?P<number>\d{1,18})(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?$"

#: The id of a snapshot in the name of a list or of statistics, as the group `number`.
SNAPSHOT = r"(?:^|/)(?:snap-|partition-stats-)?(?P<number>\d{1,19})-[^/]*$"

_CONTENT = r"\.(parquet|orc|avro)$"

# The first pattern that matches decides.
_PATTERNS = (
    (r"\.metadata\.json(\.gz)?$", IcebergKind.METADATA),
    (r"(^|/)version-hint\.text$", IcebergKind.VERSION_HINT),
    (r"(^|/)snap-\d+-\d+-[^/]+\.avro$", IcebergKind.MANIFEST_LIST),
    (r"-m\d+\.(avro|parquet)$|(^|/)stage-\d+-task-\d+-manifest-[^/]+\.avro$", IcebergKind.MANIFEST),
    (r"(^|/)partition-stats-[^/]+$", IcebergKind.PARTITION_STATISTICS),
    (r"\.stats$", IcebergKind.STATISTICS),
    (r"\.puffin$", IcebergKind.DELETION_VECTOR),
    (r"-deletes\.(parquet|orc|avro)$", IcebergKind.POSITION_DELETE),
    (_CONTENT, IcebergKind.DATA),
)

# What earlier patterns take from the last one. Most files are data, so two checks are enough.
_NOT_DATA = r"(^|/)(snap-|stage-|partition-stats-)[^/]*$|-(m\d+|deletes)\.[a-z]+$"


#: A name without a version: some catalogs use nothing but an id, which may begin with digits.
_BARE_ID = re.compile(r"(?:^|/)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.[^/]*$")
#: The names of tables without a catalog.
_FILE_SYSTEM_NAME = re.compile(r"(?:^|/)v[^/]*$")


def metadata_version(path: str) -> int | None:
    """The version in the name of a metadata file; None if there is none."""
    found = re.search(METADATA_VERSION, path)
    return int(found["number"]) if found and not _BARE_ID.search(path) else None


def compare_versions(path: str, other: str) -> int | None:
    """Negative, zero or positive as the version in one name is before, like or after another.

    None if the names do not tell: one has no version, or the files are numbered in different ways.
    A catalog that takes over a table without one begins to count again.
    """
    ours, theirs = metadata_version(path), metadata_version(other)
    alike = bool(_FILE_SYSTEM_NAME.search(path)) == bool(_FILE_SYSTEM_NAME.search(other))
    return None if ours is None or theirs is None or not alike else ours - theirs


def snapshot_ids(lists: pa.Array) -> Iterator[str]:
    """The snapshot ids in the names of manifest lists, where there are any."""
    found = pc.struct_field(pc.extract_regex(lists, SNAPSHOT), "number")
    yield from found.drop_null().to_pylist()


def kinds_by_name(paths: pa.Array) -> pa.Array:
    """The kind that each path suggests; null if it suggests none."""
    is_content = pc.match_substring_regex(paths, _CONTENT)
    is_data = pc.and_not(is_content, pc.match_substring_regex(paths, _NOT_DATA))
    kinds = pc.if_else(is_data, IcebergKind.DATA.value, pa.scalar(None, pa.string()))
    rest = pc.invert(is_data)
    return pc.replace_with_mask(kinds, rest, _by_patterns(paths.filter(rest)))


def _by_patterns(paths: pa.Array) -> pa.Array:
    kinds = pa.nulls(len(paths), pa.string())
    for pattern, kind in reversed(_PATTERNS):
        kinds = pc.if_else(pc.match_substring_regex(paths, pattern), kind.value, kinds)
    return kinds
