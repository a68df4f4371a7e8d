"""The folders that hold the files of tables, and empty partitions and buckets in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.model.file_kinds import PaimonKind, kinds_of_external_files, kinds_of_files
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.partitioning import escape
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.local.empty_folders import find_empty_folders, remove_empty_folders

_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")


def old_empty_folders(layout: Layout, cut: datetime) -> Iterator[str]:
    """Those that have not changed since `cut`; a younger one may be about to get its files."""
    names = (re.escape(escape(name)) for name in layout.partitioning.names)
    levels = [*(re.compile(f"{name}=.+") for name in names), _BUCKET]
    return find_empty_folders(layout.data_folder, levels, cut)


#: What comes after the folder of a table of Paimon, Iceberg, Delta or Hudi.
_TABLE_SIGN = re.compile(
    r"/(?:schema/schema-\d|metadata/[^/]*\.metadata\.json|_delta_log/|\.hoodie/).*"
)
_BRANCH = re.compile("branch/branch-[^/]+/")
_IN_BUCKETS = pa.array(
    [
        PaimonKind.DATA,
        PaimonKind.CHANGELOG,
        PaimonKind.EXTRA,
        PaimonKind.INDEX,
        PaimonKind.TEMPORARY,
    ]
)


@dataclass(frozen=True)
class ScannedFolder:
    """A folder that holds files of a table, and how their names determine their kinds."""

    path: str
    #: The folder of partitions and buckets. It is never removed.
    data_folder: str
    kinds: Callable[[Layout, pa.Array], pa.Array]
    layouts: tuple[Layout, ...]
    #: Folders in it that are tables themselves, although they look like partitions of this one.
    others: tuple[str, ...] = ()

    def kinds_of(self, paths: pa.Array) -> pa.Array:
        names = pc.utf8_slice_codeunits(paths, len(self.path))
        kinds = pc.coalesce(*(self.kinds(layout, names) for layout in self.layouts))
        for folder in self.others:
            kinds = pc.if_else(pc.starts_with(paths, folder), pa.scalar(None, pa.string()), kinds)
        return kinds

    def others_of(self, paths: pa.Array) -> Iterator[str]:
        """The folders of nested tables of any format; their files are left alone."""
        for path in paths.filter(pc.match_substring_regex(paths, _TABLE_SIGN.pattern)).to_pylist():
            inside = _TABLE_SIGN.split(f"/{path.removeprefix(self.path)}")[0][1:]
            if inside and not _BRANCH.fullmatch(f"{inside}/"):
                yield f"{self.path}{inside}/"


def scanned_folders(tables: Sequence[PaimonTable]) -> Iterator[ScannedFolder]:
    roots: dict[str, list[Layout]] = {}
    for table in tables:
        layouts = _naming(branch.layout for branch in table.branches())
        yield ScannedFolder(table.address.path, table.layout.data_folder, kinds_of_files, layouts)
        for root in table.external_roots:
            roots.setdefault(root, []).extend(layouts)
    for root, found in roots.items():
        yield ScannedFolder(root, root, kinds_of_external_files, _naming(found))


def _naming(layouts: Iterable[Layout]) -> tuple[Layout, ...]:
    """One of all layouts that name files in the same way."""
    return tuple({_names_of(layout): layout for layout in layouts}.values())


def _names_of(layout: Layout) -> Hashable:
    inner = layout.data_folder.removeprefix(layout.root)
    prefixes = (layout.options.text(f"{kind}-file.prefix") for kind in ("data", "changelog"))
    return inner, layout.partitioning.names, *prefixes


def bucket_folders(batch: pa.RecordBatch) -> list[str]:
    """The buckets that files (FILE_SCHEMA) lie in."""
    inside = batch.filter(pc.is_in(batch["kind"], _IN_BUCKETS))
    folders = pc.unique(pc.replace_substring_regex(inside["path"], "[^/]*$", ""))
    return list(folders.filter(pc.match_substring_regex(folders, "/bucket-[^/]+/")).to_pylist())


def remove_empty(tables: Sequence[PaimonTable], folders: set[str], cut: datetime) -> int:
    """Remove those of some folders that are empty, and all that were before `cut`; their number."""
    for table in tables:
        folders.update(old_empty_folders(table.layout, cut))
    places = scanned_folders(tables)
    return sum(len(remove_empty_folders(folders, place.data_folder)) for place in places)
