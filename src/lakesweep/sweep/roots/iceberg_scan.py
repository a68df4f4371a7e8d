"""Iceberg tables that no catalog lists, found by their metadata files.

A folder may hold the metadata of several tables, with many old versions each and some that
were never committed. Few reads find the newest of each table: a metadata file names its
predecessors, so these need not be read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, FormatError, LakesweepError, MissingError, NotFoundError
from lakesweep.iceberg.metadata import Metadata, TableMetadata, guess_location, load_metadata
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import folder_identity, identities, identity
from lakesweep.storage.listing.locations import list_files
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_METADATA = r"\.metadata\.json(\.gz)?$"
_VERSION = re.compile(r"/v?(\d+)[^/]*$")

#: The prefix of the names of these sources.
_NAME = "scan of "

ListedFiles = Callable[[], Iterable[pa.RecordBatch]]


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
        tables: defaultdict[str, list[Metadata]] = defaultdict(list)
        problems: list[RootProblem] = []
        damaged: list[RootProblem] = []
        known: set[str] = set()
        for path in sorted(paths, key=_version, reverse=True):
            if identity(path) in known:
                continue
            try:
                metadata = load_metadata(self.stores, path)
            except NotFoundError:
                continue  # replaced in the meantime
            except FormatError as error:
                damaged.append(self._problem(path, error))
            except LakesweepError as error:
                problems.append(self._problem(path, error))
            else:
                tables[metadata.uuid or metadata.location].append(metadata)
                known |= _older(metadata)
        problems += _newer(damaged, tables.values())
        rows = [row for versions in tables.values() for row in self._newest(versions)]
        return [*rows, *(problems if self.keep else [])]

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
    scan = ScanRoots(stores, folder, keep=True, listing=lambda: list_files(stores, folder))
    try:
        found = [each for each in scan.collect() if _is_later(str(each.name), path)]
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


def _newer(
    damaged: Iterable[RootProblem], tables: Iterable[Sequence[Metadata]]
) -> Iterator[RootProblem]:
    """Unreadable files without a later version that is readable.

    An older version is no substitute: the table may have moved on in a format that is unknown here.
    """
    newest = max((_version(each.path) for found in tables for each in found), default=-1)
    return (problem for problem in damaged if _version(str(problem.name)) >= newest)


def _older(metadata: Metadata) -> set[str]:
    log = metadata.log if isinstance(metadata, TableMetadata) else ()
    return {identity(path) for path in log}


def _folder(path: str) -> str:
    return path.rpartition("/")[0] + "/"


def _version(path: str) -> int:
    found = _VERSION.search(path)
    return int(found[1]) if found else -1
