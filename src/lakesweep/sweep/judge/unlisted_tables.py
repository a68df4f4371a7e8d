"""Tables in a lake that no root lists, found by their metadata in the listing.

Most likely a catalog was forgotten in the configuration, so everything in the folders of such a
table is kept. Only two things show that a table was dropped: a person says so by name, or an
earlier plan saw it in a catalog that is still asked, and does not list it any more. The second
holds for that table alone: if another one has written metadata there since, it is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.clock import moment
from lakesweep.errors import LakesweepError, UsageError
from lakesweep.guard_names import NAMED_TABLE
from lakesweep.iceberg.file_kinds import metadata_version
from lakesweep.iceberg.metadata import Metadata, load_metadata, table_uuid
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.sweep.guards import MAX_CLOCK_SKEW
from lakesweep.sweep.mark.root_identity import gone_roots, has_superseded
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.paths.foreign_formats import (
    MOST_FOLDERS,
    TABLES,
    ForeignFolder,
    ForeignFormat,
    few_folders,
    without_read,
)
from lakesweep.sweep.roots.root import RootKind, is_catalog
from lakesweep.untrusted.limits import reading

if TYPE_CHECKING:
    from lakesweep.runs.records import RootMemory
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks, RootMark

_ICEBERG = (RootKind.ICEBERG_TABLE, RootKind.ICEBERG_VIEW)
_METADATA = ".metadata.json"


@dataclass(frozen=True, slots=True)
class UnlistedFolder:
    """A table that no root lists: its folder, without a slash, and others that it declares."""

    format: ForeignFormat
    folder: str
    declared: tuple[str, ...] = ()

    @property
    def claims(self) -> Iterator[tuple[str, str]]:
        """Everything that is kept for it, under the name of its folder."""
        return ((each, self.folder) for each in (self.folder, *self.declared))


@dataclass(frozen=True, slots=True)
class SurveyedFolders:
    """The folders of others in a lake: of formats that no root reads, and unlisted tables."""

    foreign: tuple[ForeignFolder, ...] = ()
    unlisted: tuple[UnlistedFolder, ...] = ()


NO_FOLDERS = SurveyedFolders()


class UnlistedSearch:
    """Finds the tables that no root of the marks lists. `memory` says what earlier plans saw."""

    def __init__(
        self,
        stores: Stores,
        lake: Lake,
        marks: Marks,
        memory: Mapping[str, RootMemory],
        workers: int = 16,
    ) -> None:
        self._stores = stores
        self._lake = lake
        self._marks = marks
        self._workers = workers
        self._dropped = _dropped_roots(marks, memory)
        self._by_uuid: defaultdict[str | None, list[RootMark]] = defaultdict(list)
        for root in marks.roots:
            if root.facts is not None and root.facts.uuid is not None:
                self._by_uuid[root.facts.uuid].append(root)

    def find(self, found: Iterable[ForeignFolder]) -> tuple[UnlistedFolder, ...]:
        """Those among folders with metadata; few or none where the configuration is complete."""
        tables = (each for each in found if each.format in TABLES)
        unread = list(without_read(paimon_folders(self._marks), tables))
        iceberg = list(self._without_current(each for each in unread if each.file))
        looked = map_ordered(self._look, iceberg, workers=self._workers)
        lost = [each for each in looked if each is not None]
        lost += (_of(each) for each in unread if not each.file)
        return tuple(_few(lost))

    def _without_current(self, found: Iterable[ForeignFolder]) -> Iterator[ForeignFolder]:
        """Without folders that hold the current metadata of a root, or that are Lakesweep's own."""
        roots = (root for root in self._marks.roots if root.kind in _ICEBERG and root.pointer)
        current = {_beside(root.pointer) for root in roots}
        own = FolderMap((claimed_folder(each), "") for each in self._lake.own_folders)
        for each in found:
            is_own = "/_lakesweep/" in each.file or _is_in(own, each.folder)
            if not is_own and _beside(each.file) not in current:
                yield each

    def _look(self, found: ForeignFolder) -> UnlistedFolder | None:
        ends = self._dropped.get(_beside(found.file), ())
        if any(self._is_last_of(known, found.file) for known in ends):
            return None
        try:
            with reading(found.file):
                metadata = load_metadata(self._stores, found.file)
        except LakesweepError:
            return _of(found)  # its folder is all that is known
        if self._is_earlier(found, metadata):
            return None
        return _of(found, (metadata.location, *metadata.write_paths))

    def _is_earlier(self, found: ForeignFolder, metadata: Metadata) -> bool:
        """Whether this is an earlier version of a root whose metadata is in another folder now."""
        folder = claimed_folder(found.folder)
        for root in self._by_uuid[metadata.uuid]:
            assert root.facts is not None
            if has_superseded(root.pointer, root.facts, found.file):
                return True
            # The log may have forgotten it, and the location have changed. A copy in a folder that
            # the root does not use is another table, and so is one that has moved on.
            declared = (root.facts.location, *root.facts.write_paths, *root.folders)
            is_used = any(claimed_folder(each).startswith(folder) for each in declared)
            if is_used and not _is_newer(found.file, root.pointer):
                return True
        return False

    def _is_last_of(self, known: RootMemory, file: str) -> bool:
        """Whether only this table wrote metadata to its folder since it was last listed."""
        place = parse(file)
        folder = place.child(f"{place.key.rpartition('/')[0]}/")
        since = moment(known.seen_at) - MAX_CLOCK_SKEW
        try:
            files = list_level(self._stores, folder).files
            ids = {
                table_uuid(self._stores, place.child(info.key).path)
                for name, info in files.items()
                if _METADATA in name and (info.modified is None or info.modified >= since)
            }
        except LakesweepError:
            return False
        return known.uuid is not None and ids <= {known.uuid}


def _dropped_roots(
    marks: Marks, memory: Mapping[str, RootMemory]
) -> Mapping[str, Sequence[RootMemory]]:
    """By the folder of their metadata, what catalogs listed before and do not list any more.

    A catalog that is not asked any more says nothing: perhaps it was forgotten.
    """
    asked = {root.origin for root in marks.roots} | {empty.origin for empty in marks.empty}
    dropped: defaultdict[str, list[RootMemory]] = defaultdict(list)
    for known in gone_roots(marks, memory).values():
        if is_catalog(known.origin) and known.origin in asked and known.pointer:
            dropped[_beside(known.pointer)].append(known)
    return dropped


def paimon_folders(marks: Marks) -> Iterator[str]:
    """The folders of Paimon tables that are roots, whether or not they could be read."""
    for root in marks.roots:
        if root.kind is RootKind.PAIMON_TABLE and root.folders:
            yield root.folders[0]


def named_tables(overridden: Collection[str]) -> Iterator[str]:
    """The tables that overrides of the guard name, as `unlisted-table=ADDRESS`."""
    return (each.removeprefix(NAMED_TABLE) for each in overridden if each.startswith(NAMED_TABLE))


def _of(found: ForeignFolder, declared: Iterable[str] = ()) -> UnlistedFolder:
    usable = tuple(dict.fromkeys(each for each in declared if _is_address(each)))
    return UnlistedFolder(found.format, found.folder.rstrip("/"), usable)


def _is_address(text: str) -> bool:
    try:
        claimed_folder(text)
    except UsageError:
        return False
    return True


def _few(found: Sequence[UnlistedFolder]) -> Iterable[UnlistedFolder]:
    """The tables, one for each folder; wider folders if there are too many."""
    if len(found) <= MOST_FOLDERS:
        return {each.folder: each for each in found}.values()
    folders = few_folders({f"{each.folder}/" for each in found})
    return [UnlistedFolder(found[0].format, folder.rstrip("/")) for folder in folders]


def _is_newer(file: str, pointer: str) -> bool:
    """Whether metadata has a higher version than that of a root, as far as names tell."""
    version, current = metadata_version(file), metadata_version(pointer)
    return version is None or current is None or version > current


def _beside(file: str) -> str:
    """The folder of a metadata file."""
    return claimed_folder(file.rpartition("/")[0])


def _is_in(folders: FolderMap, folder: str) -> bool:
    return bool(folders.find(pa.array([claimed_folder(folder)]))[0] >= 0)
