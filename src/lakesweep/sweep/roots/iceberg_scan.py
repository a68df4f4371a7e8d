"""Iceberg tables that no catalog lists, found by their metadata files.

A folder may hold the metadata of several tables, with many old versions each and some that
were never committed. Few reads find the newest of each table: a metadata file names its
predecessors, so of these only the beginning is read, which tells that they are of the same table.
Files whose names have no number are read completely: only they themselves tell their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, FormatError, LakesweepError, MissingError, NotFoundError
from lakesweep.iceberg.file_kinds import compare_versions, metadata_version
from lakesweep.iceberg.metadata import (
    Metadata,
    TableMetadata,
    guess_location,
    load_metadata,
    table_uuid,
    uuid_at_beginning,
)
from lakesweep.iceberg.metadata_order import current_metadata
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import folder_identity, identities, identity
from lakesweep.storage.listing.locations import list_files
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from lakesweep.untrusted.limits import reading

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_METADATA = r"\.metadata\.json(\.gz)?$"

#: The prefix of the names of these sources.
_NAME = "scan of "

ListedFiles = Callable[[], Iterable[pa.RecordBatch]]


@dataclass
class FoundTable:
    """What a folder holds of one table: metadata that was read, and the files in its logs.

    `logged` leads from these files to those that name them; `seen` are all its files.
    """

    versions: list[Metadata] = field(default_factory=list)
    logged: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    seen: list[str] = field(default_factory=list)

    def add(self, metadata: Metadata) -> None:
        self.versions.append(metadata)
        self.seen.append(metadata.path)
        for path in metadata.log if isinstance(metadata, TableMetadata) else ():
            self.logged[identity(path)].append(metadata.path)

    def has_logged(self, path: str) -> bool:
        """Whether a file with a higher number names this one as its predecessor."""
        return any(is_lower(path, logger) for logger in self.logged.get(identity(path), ()))


@dataclass(frozen=True)
class ScanRoots:
    """The newest metadata of every table and view below a path, from a listing of files.

    Each is void if a catalog knows it, or a later version of it. The others are kept, or only
    reported.
    """

    stores: Stores
    path: str
    keep: bool
    listing: ListedFiles
    workers: int = 16

    @property
    def name(self) -> str:
        return _NAME + self.path

    def collect(self) -> Iterator[RootRow | RootProblem]:
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for batch in self.listing():
            for path in _metadata_files(batch, self.path):
                folders[_folder(path)].append(path)
        for found in map_ordered(self._read_folder, folders.values(), workers=self.workers):
            yield from found

    def look(self, root: RootRow) -> RootRow | None:
        folder = _folder(root.pointer)
        batches = list_files(self.stores, folder)
        files = [path for batch in batches for path in _metadata_files(batch, folder)]
        inside = [path for path in files if _folder(path) == folder]
        found = self._read_folder(inside)
        for problem in found:
            if isinstance(problem, RootProblem):
                raise DamagedError(str(problem.name), problem.reason)
        rows = [row for row in found if isinstance(row, RootRow)]
        # The newest of them first.
        same = [row for row in rows if row.unless_known == root.unless_known]
        return next((row for row in same if row == root), same[0] if same else None)

    def _read_folder(self, paths: Sequence[str]) -> list[RootRow | RootProblem]:
        """The newest metadata of each table in a folder, and unreadable files that may be one."""
        tables: defaultdict[str, FoundTable] = defaultdict(FoundTable)
        problems: list[RootProblem] = []
        damaged: list[RootProblem] = []
        for path in sorted(paths, key=_number, reverse=True):
            try:
                with reading(path):
                    if (owner := self._logged_by(path, tables)) is not None:
                        owner.seen.append(path)
                        continue
                    metadata = load_metadata(self.stores, path)
            except NotFoundError:
                continue  # replaced in the meantime
            except FormatError as error:
                damaged.append(self._problem(path, error))
            except LakesweepError as error:
                problems.append(self._problem(path, error))
            else:
                tables[metadata.uuid or metadata.location].add(metadata)
        problems += self._newer(damaged, tables)
        newest = (each for table in tables.values() for each in current_metadata(table.versions))
        rows = [self._row(metadata) for metadata in newest]
        return [*rows, *(problems if self.keep else [])]

    def _logged_by(self, path: str, tables: Mapping[str, FoundTable]) -> FoundTable | None:
        """The table that names a file in a log, and that it belongs to.

        A log may name files of any table. Only that of the same table makes them outdated, or one
        file could hide all of a lost table.
        """
        named = {uuid: table for uuid, table in tables.items() if table.has_logged(path)}
        return named.get(table_uuid(self.stores, path) or "") if named else None

    def _newer(
        self, damaged: Iterable[RootProblem], tables: Mapping[str, FoundTable]
    ) -> Iterator[RootProblem]:
        """Unreadable files of which their table has no later version that is readable.

        An older version is no substitute: the table may have moved on in a format that is unknown
        here. If the file does not tell its table, it counts as one of those around it.
        """
        for problem in damaged:
            path = str(problem.name)
            own = tables.get(self._uuid_of_damaged(path) or "")
            likely = [own] if own else [t for t in tables.values() if _is_within(path, t.seen)]
            if not any(is_lower(path, other) for table in likely for other in table.seen):
                yield problem

    def _uuid_of_damaged(self, path: str) -> str | None:
        try:
            return uuid_at_beginning(self.stores, path)
        except LakesweepError:
            return None

    def _row(self, metadata: Metadata) -> RootRow:
        is_table = isinstance(metadata, TableMetadata)
        return RootRow(
            name=metadata.path,
            kind=RootKind.ICEBERG_TABLE if is_table else RootKind.ICEBERG_VIEW,
            pointer=metadata.path,
            source=self.name,
            locations=(metadata.location, *metadata.write_paths),
            unless_known=metadata.uuid,
            keeps=self.keep,
        )

    def _problem(self, path: str, error: LakesweepError) -> RootProblem:
        return RootProblem(self.name, error.message, path, locations=(guess_location(path),))


def later_versions(stores: Stores, path: str) -> Iterator[RootRow | RootProblem]:
    """Metadata files of the same table beside a metadata file that make it outdated, or may."""
    try:
        later = [*_beside(stores, path)]
    except MissingError:
        return  # then the file itself is missing too
    if not any(pc.any(batch["later"]).as_py() for batch in later):
        return
    uuid = load_metadata(stores, path).uuid
    for each in ScanRoots(stores, _folder(path), keep=True, listing=lambda: later).collect():
        is_itself = isinstance(each, RootRow) and identity(each.pointer) == identity(path)
        if isinstance(each, RootProblem) or (each.unless_known == uuid and not is_itself):
            yield each


def _beside(stores: Stores, path: str) -> Iterator[pa.RecordBatch]:
    """A file and those beside it that are not certainly older, which are `later`."""
    own, folder = identity(path), _folder(identity(path))
    for batch in list_files(stores, _folder(path)):
        others = batch["path"].to_pylist()
        named = [identity(other) for other in others]
        itself = pa.array([name == own for name in named], pa.bool_())
        later = [
            _folder(name) == folder and name != own and not _is_certainly_older(other, path)
            for name, other in zip(named, others, strict=True)
        ]
        rows = batch.append_column("later", pa.array(later, pa.bool_()))
        yield rows.filter(pc.or_(itself, rows["later"]))


def _is_certainly_older(other: str, path: str) -> bool:
    """Whether names tell that a file is no later version: its number is not higher."""
    order = compare_versions(other, path)
    return order is not None and order <= 0


def is_lower(path: str, other: str) -> bool:
    """Whether both names have numbers of one kind, and this one has the lower."""
    order = compare_versions(path, other)
    return order is not None and order < 0


def _is_within(path: str, seen: Iterable[str]) -> bool:
    """Whether one of some files has a number that is not higher."""
    return any(_is_certainly_older(other, path) for other in seen)


def is_scan(origin: str) -> bool:
    """Whether a root of this origin was found by a scan."""
    return origin.startswith(_NAME)


def _metadata_files(batch: pa.RecordBatch, path: str) -> list[str]:
    """The paths of a batch that are below a path and named like metadata files."""
    named = batch["path"].filter(pc.match_substring_regex(batch["path"], _METADATA))
    below = pc.starts_with(identities(named), folder_identity(path))
    return [str(found) for found in named.filter(below).to_pylist()]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] + "/"


def _number(path: str) -> int:
    """The number in a name, for reading higher ones first; -1 without one."""
    number = metadata_version(path)
    return -1 if number is None else number
