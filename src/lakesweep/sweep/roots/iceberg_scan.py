"""Iceberg tables that no catalog lists, found by their metadata files.

A folder may hold the metadata of several tables, with many old versions each and some that
were never committed. Few reads find the newest of each table: a metadata file names its
predecessors, so of these only the beginning is read, which tells that they are of the same table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, FormatError, LakesweepError, MissingError, NotFoundError
from lakesweep.iceberg.metadata import (
    Metadata,
    TableMetadata,
    guess_location,
    load_metadata,
    table_uuid,
    uuid_at_beginning,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import folder_identity, identities, identity
from lakesweep.storage.listing.locations import list_files
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from lakesweep.untrusted.limits import reading

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_METADATA = r"\.metadata\.json(\.gz)?$"
_VERSION = re.compile(r"/v?(\d+)[^/]*$")

#: The prefix of the names of these sources.
_NAME = "scan of "

ListedFiles = Callable[[], Iterable[pa.RecordBatch]]


@dataclass
class FoundTable:
    """What a folder holds of one table: metadata that was read, and the files in its logs.

    `seen` are the versions of all its files.
    """

    versions: list[Metadata] = field(default_factory=list)
    logged: set[str] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)

    def add(self, metadata: Metadata) -> None:
        self.versions.append(metadata)
        self.seen.add(_version(metadata.path))
        if isinstance(metadata, TableMetadata):
            self.logged.update(map(identity, metadata.log))


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
        same = [row for row in rows if row.unless_known == root.unless_known]
        return next((row for row in same if row == root), same[0] if same else None)

    def _read_folder(self, paths: Sequence[str]) -> list[RootRow | RootProblem]:
        """The newest metadata of each table in a folder, and unreadable files that may be one."""
        tables: defaultdict[str, FoundTable] = defaultdict(FoundTable)
        problems: list[RootProblem] = []
        damaged: list[RootProblem] = []
        for path in sorted(paths, key=_version, reverse=True):
            try:
                with reading(path):
                    if (owner := self._logged_by(path, tables)) is not None:
                        owner.seen.add(_version(path))
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
        rows = [row for table in tables.values() for row in self._newest(table.versions)]
        return [*rows, *(problems if self.keep else [])]

    def _logged_by(self, path: str, tables: Mapping[str, FoundTable]) -> FoundTable | None:
        """The table that names a file in a log, and that it belongs to.

        A log may name files of any table. Only that of the same table makes them outdated, or one
        file could hide all of a lost table.
        """
        named = {uuid: table for uuid, table in tables.items() if identity(path) in table.logged}
        return named.get(table_uuid(self.stores, path) or "") if named else None

    def _newer(
        self, damaged: Iterable[RootProblem], tables: Mapping[str, FoundTable]
    ) -> Iterator[RootProblem]:
        """Unreadable files of which their table has no later version that is readable.

        An older version is no substitute: the table may have moved on in a format that is unknown
        here. If the file does not tell its table, it counts as one of those around it.
        """
        for problem in damaged:
            version = _version(str(problem.name))
            own = tables.get(self._uuid_of_damaged(str(problem.name)) or "")
            likely = [own] if own else [t for t in tables.values() if min(t.seen) <= version]
            if not any(version < max(table.seen) for table in likely):
                yield problem

    def _uuid_of_damaged(self, path: str) -> str | None:
        try:
            return uuid_at_beginning(self.stores, path)
        except LakesweepError:
            return None

    def _newest(self, versions: Sequence[Metadata]) -> Iterator[RootRow]:
        """Several files may have the same number: one was committed, and nothing says which."""
        newest = max(_version(metadata.path) for metadata in versions)
        for metadata in versions:
            if _version(metadata.path) == newest:
                yield self._row(metadata)

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
    """Newer metadata files of the same table beside a metadata file, which make it outdated."""
    folder = _folder(path)

    def later() -> Iterator[pa.RecordBatch]:
        for batch in list_files(stores, folder):
            mask = [_is_later(other, path) for other in batch["path"].to_pylist()]
            yield batch.filter(pa.array(mask, pa.bool_()))

    try:
        found = list(ScanRoots(stores, folder, keep=True, listing=later).collect())
    except MissingError:
        return  # then the file itself is missing too
    uuid = load_metadata(stores, path).uuid if found else None
    for each in found:
        if isinstance(each, RootProblem) or each.unless_known == uuid:
            yield each


def _is_later(other: str, path: str) -> bool:
    is_beside = _folder(identity(other)) == _folder(identity(path))
    return is_beside and _version(other) > _version(path)


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


def _version(path: str) -> int:
    found = _VERSION.search(path)
    return int(found[1]) if found else -1
