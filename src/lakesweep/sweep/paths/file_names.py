"""What a file name reveals: its format, and whether it is hidden or temporary.

A name proves nothing. It can only keep a file: one with an unknown name, or one that seems to
belong to a format whose tables this run does not read.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing.strings import string_buffers
from lakesweep.iceberg.file_kinds import IcebergKind, kinds_by_name
from lakesweep.sweep.columns import Mask, mask_of

NameStarts: TypeAlias = npt.NDArray[np.int64]


class FormatFamily(StrEnum):
    """A table format, or something else that keeps files in the lake."""

    ICEBERG = "iceberg"
    PAIMON = "paimon"
    LAKEFS = "lakefs"


_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

# Only patterns that other formats hardly use: the folders of these files are part of the pattern.
_FOREIGN_NAMES = (
    (
        FormatFamily.PAIMON,
        r"/bucket-(\d+|postpone)/([^/]+/)*[^/]*" + _UUID + r"-\d+(\.[^/]+)?$"
        r"|/manifest/(index-)?manifest-(list-)?" + _UUID + r"[^/]*$"
        r"|/snapshot/(snapshot-\d+|EARLIEST|LATEST)$"
        r"|/changelog/(changelog-\d+|EARLIEST|LATEST)$"
        r"|/schema/schema-\d+$"
        r"|/index/index-" + _UUID + r"-\d+$"
        r"|/statistics/stat-" + _UUID + r"-\d+$"
        r"|/[a-z0-9_-]+-global-index-" + _UUID + r"\.index$"
        r"|/(tag/tag|consumer/consumer|service/service)-[^/]+$",
    ),
    (FormatFamily.LAKEFS, r"/_lakefs/"),
)

_TEMPORARY = (
    r"/(_temporary|_tmp|\.spark-staging[^/]*|\.hive-staging[^/]*|copy-table-staging-[^/]+)/"
    r"|/(_SUCCESS|_started[^/]*|_committed[^/]*|_tmp\.[^/]*|\.lakesweep-tmp-[^/]*)$"
    r"|\.(tmp|temp|inprogress|crc|_COPYING_)$"
)
#: Unfinished writes, which only local disks have, and probes of what an object store can do.
_LEFTOVER = r"^/(.*/)?\.lakesweep-tmp-[0-9a-f]{16}$|/\.lakesweep-probe-[0-9a-f]{32}$"


class FileNames:
    """What the names in a column of paths reveal; only unusual ones are examined closely.

    Most paths name a data file and nothing else: they are neither hidden nor temporary, and of no
    other format.
    """

    def __init__(self, paths: pa.Array, odd: Mask | None = None) -> None:
        self.paths = paths
        self._odd = _find_odd(paths) if odd is None else odd

    def __len__(self) -> int:
        return len(self.paths)

    def filter(self, mask: Mask) -> FileNames:
        """The names in the rows of a mask."""
        return FileNames(self.paths.filter(pa.array(mask)), self._odd[mask])

    def kinds(self) -> pa.Array:
        """The kind that each path looks like, null for none."""
        kinds = self._closely(kinds_by_name)
        return pc.if_else(pa.array(self._odd), kinds, IcebergKind.DATA.value)

    def families(self) -> pa.Array:
        """The format other than Iceberg that each path looks like, null for none."""
        return self._closely(_families_by_name)

    def temporary(self) -> Mask:
        """Whether each path is named like files that engines remove or replace."""
        temporary = self._odd.copy()
        temporary[self._odd] = mask_of(pc.match_substring_regex(self.odd_paths(), _TEMPORARY))
        return temporary

    def leftover(self) -> Mask:
        """Whether each path is named like something of ours that a crash left behind."""
        leftover = self._odd.copy()
        leftover[self._odd] = mask_of(pc.match_substring_regex(self.odd_paths(), _LEFTOVER))
        return leftover

    def own(self) -> Mask:
        """Whether each path is in a folder that only Lakesweep creates."""
        own = self._odd.copy()
        own[self._odd] = mask_of(pc.match_substring(self.odd_paths(), "/_lakesweep/"))
        return own

    def hidden(self, starts: NameStarts) -> Mask:
        """Whether a name after byte `start` of each path begins with a dot or an underscore."""
        hidden = self._odd.copy()
        hidden[self._odd] = _find_hidden(self.odd_paths(), starts[self._odd])
        return hidden

    def odd_paths(self) -> pa.Array:
        """The paths with unusual names; the others name data files."""
        return self.paths.filter(pa.array(self._odd))

    def _closely(self, look: Callable[[pa.Array], pa.Array]) -> pa.Array:
        nothing = pa.nulls(len(self), pa.string())
        return pc.replace_with_mask(nothing, pa.array(self._odd), look(self.odd_paths()))


def is_hidden(path: str, start: int, table: int, fields: AbstractSet[str]) -> bool:
    """The same for one path whose table starts at byte `table` and is partitioned by some fields.

    In the table, a folder that is named after such a field, `_x=1`, is not hidden.
    """
    data = path.encode()
    outside, inside = data[start : max(start, table)].decode(), data[max(start, table) :].decode()
    *folders, name = inside.split("/")
    others = (folder for folder in folders if not _is_partition(folder, fields))
    return any(map(_looks_hidden, (*outside.split("/"), *others, name)))


def _find_odd(paths: pa.Array) -> Mask:
    from lakesweep.sweep.paths.path_kernels import find_plain  # imports numba

    plain = np.empty(len(paths), dtype=np.bool_)
    find_plain(*string_buffers(paths.cast(pa.large_string())), plain)
    return ~plain


def _families_by_name(paths: pa.Array) -> pa.Array:
    families = pa.nulls(len(paths), pa.string())
    for family, pattern in _FOREIGN_NAMES:
        is_one = pc.match_substring_regex(paths, pattern)
        families = pc.if_else(is_one, family.value, families)
    return families


def _find_hidden(paths: pa.Array, starts: NameStarts) -> Mask:
    from lakesweep.sweep.paths.path_kernels import find_hidden  # imports numba

    hidden = np.empty(len(paths), dtype=np.bool_)
    find_hidden(*string_buffers(paths.cast(pa.large_string())), starts, hidden)
    return hidden


def _is_partition(folder: str, fields: AbstractSet[str]) -> bool:
    field, equals, _ = folder.partition("=")
    return bool(equals) and field in fields


def _looks_hidden(name: str) -> bool:
    return name.startswith((".", "_"))
