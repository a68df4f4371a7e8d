"""What names of files say: of which format they are, whether they are hidden or temporary.

A name proves nothing. It can only keep a file: one whose name nobody knows, or that looks like it
belongs to a format whose tables this run does not read.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing.strings import string_buffers

Mask = npt.NDArray[np.bool_]


class Family(StrEnum):
    """A table format, or what else keeps files in the lake."""

    ICEBERG = "iceberg"
    PAIMON = "paimon"
    LAKEFS = "lakefs"


_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

# Only what other formats hardly use: the folders in which these files lie are part of the name.
_FOREIGN_NAMES = (
    (
        Family.PAIMON,
        r"/bucket-(\d+|postpone)/([^/]+/)*(data|changelog)-" + _UUID + r"-\d+\.[^/]+$"
        r"|/manifest/(index-)?manifest-(list-)?" + _UUID + r"[^/]*$"
        r"|/snapshot/(snapshot-\d+|EARLIEST|LATEST)$"
        r"|/changelog/(changelog-\d+|EARLIEST|LATEST)$"
        r"|/schema/schema-\d+$"
        r"|/index/index-" + _UUID + r"-\d+$"
        r"|/statistics/stat-" + _UUID + r"-\d+$"
        r"|/(tag/tag|consumer/consumer|service/service)-[^/]+$",
    ),
    (Family.LAKEFS, r"/_lakefs/"),
)

_TEMPORARY = (
    r"/(_temporary|_tmp|\.spark-staging[^/]*|\.hive-staging[^/]*|copy-table-staging-[^/]+)/"
    r"|/(_SUCCESS|_started[^/]*|_committed[^/]*|_tmp\.[^/]*|\.lakesweep-tmp-[^/]*)$"
    r"|\.(tmp|temp|inprogress|crc|_COPYING_)$"
)

# A folder of a partition by a field whose name begins so: `_x=1`.
_HIDDEN_FIELD = r"/[._][^/=]*="


def families_by_name(paths: pa.Array) -> pa.Array:
    """The format other than Iceberg that each path looks like, null where it looks like none."""
    families = pa.nulls(len(paths), pa.string())
    for family, pattern in _FOREIGN_NAMES:
        is_one = pc.match_substring_regex(paths, pattern)
        if pc.any(is_one).as_py():
            families = pc.if_else(is_one, family.value, families)
    return families


def is_temporary(paths: pa.Array) -> pa.Array:
    """Whether each path is named as engines name what they will remove or replace."""
    return pc.match_substring_regex(paths, _TEMPORARY)


def is_hidden(
    paths: pa.Array, starts: npt.NDArray[np.int64], fields: AbstractSet[str] = frozenset()
) -> Mask:
    """Whether a name behind byte `start` of each path begins with a dot or an underscore.

    A folder of a partition is not hidden if live files lie in such folders too: `fields` are those
    of `hidden_fields`, of the live files.
    """
    from lakesweep.sweep.components import find_hidden  # imports numba

    hidden = np.empty(len(paths), dtype=np.bool_)
    find_hidden(*string_buffers(paths.cast(pa.large_string())), starts, hidden)
    if fields and hidden.any():
        rows = np.flatnonzero(hidden)
        chosen = paths.take(pa.array(rows)).to_pylist()
        for row, path, start in zip(rows, chosen, starts[rows].tolist(), strict=True):
            hidden[row] = _has_hidden_name(path, start, fields)
    return hidden


def hidden_fields(paths: pa.Array) -> set[str]:
    """How paths begin, up to the `=` of partition folders whose names look hidden."""
    found = paths.filter(pc.match_substring_regex(paths, _HIDDEN_FIELD)).to_pylist()
    return {field for path in found for field in _fields_of(path)}


def _fields_of(path: str) -> list[str]:
    """`s3://b/t/_x=` for `s3://b/t/_x=1/f`, and so on for each such folder."""
    fields, before = [], ""
    for name in path.split("/")[:-1]:
        field, equals, _ = name.partition("=")
        if _looks_hidden(name) and equals:
            fields.append(before + field + equals)
        before += name + "/"
    return fields


def _has_hidden_name(path: str, start: int, fields: AbstractSet[str]) -> bool:
    """The same as the kernel, for one path, with an eye on the fields."""
    inside = path.encode()[start:].decode()
    names = sum(map(_looks_hidden, inside.split("/")))
    known = [field for field in _fields_of(path) if len(field.encode()) > start]
    return names > sum(field in fields for field in known)


def _looks_hidden(name: str) -> bool:
    return name.startswith((".", "_"))
