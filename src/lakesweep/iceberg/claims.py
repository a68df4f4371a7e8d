"""What the other known tables claim, so that purging one table never damages another.

Tables often share files: two names for one folder, a folder inside another table's folder, a
table registered twice, data files added from elsewhere. Folders do not reveal this. So a purge
marks every other known table, strictly, and spares whatever they reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.hashing import Hashes
from lakesweep.iceberg.metadata import guess_location, load_metadata
from lakesweep.parallel import map_ordered
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import folder_identity, identity
from lakesweep.storage.file_identity import file_hashes, resolve_alias

if TYPE_CHECKING:
    from lakesweep.iceberg.catalog_entries import CatalogEntry
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class TableClaim:
    """Another known table or view; `metadata` is None if it could not be read, for `error`."""

    name: str
    path: str
    metadata: Metadata | None
    error: str | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """Where it stores its files, as far as is known without reading manifests."""
        if self.metadata is None:
            return (guess_location(self.path),)
        return folders_of(self.metadata)


def folders_of(metadata: Metadata) -> tuple[str, ...]:
    """The folders that belong to a table or view: its location, and its write paths."""
    return (metadata.location, *metadata.write_paths)


def claims(
    stores: Stores, entries: Iterable[CatalogEntry], *, progress: Progress = SILENT
) -> Iterator[TableClaim]:
    """The metadata of every entry; an unreadable one is a claim too."""

    def read(entry: CatalogEntry) -> TableClaim:
        try:
            metadata = load_metadata(stores, entry.metadata_path)
        except LakesweepError as error:
            return TableClaim(entry.full_name, entry.metadata_path, None, error.message)
        return TableClaim(entry.full_name, entry.metadata_path, metadata)

    with progress.task("compared", unit="tables") as task:
        for claim in map_ordered(read, entries, workers=16):
            task.advance(1)
            yield claim


def overlaps(claim: TableClaim, folders: Iterable[str]) -> bool:
    """Whether another table's folder equals, contains or is inside one of these folders."""
    return any(
        _is_below(mine, theirs) or _is_below(theirs, mine)
        for mine in map(real_folder, folders)
        for theirs in map(real_folder, claim.folders)
    )


def holds(claim: TableClaim, folder: str) -> bool:
    """Whether another table's folder is or contains this one."""
    return any(_is_below(real_folder(folder), real_folder(theirs)) for theirs in claim.folders)


def is_same_table(claim: TableClaim, metadata: Metadata) -> bool:
    """Whether a claim is the table itself: it has the same metadata file."""
    return identity(claim.path) == identity(metadata.path)


def real_folder(path: str) -> str:
    """The form in which folders are compared: local links are resolved."""
    return resolve_alias(folder_identity(path))


def real_hashes(batch: pa.RecordBatch) -> Hashes:
    """The hashes by which files are protected: equal for all names of one file."""
    return file_hashes(batch["path"])


def _is_below(folder: str, outer: str) -> bool:
    return folder.startswith(outer)
