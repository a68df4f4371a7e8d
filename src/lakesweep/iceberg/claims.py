"""What the other known tables hold on to, so that purging one never harms another.

Tables share files more often than people think: two names on one folder, a folder inside another's
folder, a table registered twice, data files that were added from elsewhere. A purge therefore asks
which other known tables could share files with it, marks those strictly, and leaves alone whatever
they reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import LakesweepError
from lakesweep.hashing import HashSet
from lakesweep.iceberg.reach import reached_files
from lakesweep.iceberg.reading import load_metadata
from lakesweep.parallel import map_ordered
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import folder_identity, identity, overlap
from lakesweep.storage.tolerance import Strict
from lakesweep.storage.unique import path_hashes

if TYPE_CHECKING:
    from lakesweep.iceberg.catalogs import Entry
    from lakesweep.iceberg.reading import Metadata
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Claim:
    """Another known table or view; `metadata` is None where it could not be read, with `error`."""

    name: str
    path: str
    metadata: Metadata | None
    error: str | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """Where it keeps its files, as far as is known without reading manifests."""
        if self.metadata is None:
            return (self.path.rpartition("/metadata/")[0] or self.path,)
        return folders_of(self.metadata)


def folders_of(metadata: Metadata) -> tuple[str, ...]:
    """The folders that a table or view calls its own: its location, and where it writes."""
    return (metadata.location, *metadata.write_paths)


def claims(
    stores: Stores, entries: Iterable[Entry], *, progress: Progress = SILENT
) -> Iterator[Claim]:
    """The metadata of every entry; one that cannot be read is a claim all the same."""

    def read(entry: Entry) -> Claim:
        try:
            metadata = load_metadata(stores, entry.metadata_path)
        except LakesweepError as error:
            return Claim(entry.full_name, entry.metadata_path, None, error.message)
        return Claim(entry.full_name, entry.metadata_path, metadata)

    with progress.task("compared", unit="tables") as task:
        for claim in map_ordered(read, entries, workers=16):
            task.advance(1)
            yield claim


def overlaps(claim: Claim, folders: Iterable[str]) -> bool:
    """Whether another table's folders are, hold or lie in one of these folders."""
    return any(overlap(mine, theirs) for mine in folders for theirs in claim.folders)


def holds(claim: Claim, folder: str) -> bool:
    """Whether another table's folder is this one or lies around it."""
    inside = folder_identity(folder)
    return any(inside.startswith(folder_identity(theirs)) for theirs in claim.folders)


def is_same_table(claim: Claim, metadata: Metadata) -> bool:
    """Whether a claim is the table itself, found under the same metadata file."""
    return identity(claim.path) == identity(metadata.path)


def mark(stores: Stores, others: Iterable[Claim], *, progress: Progress = SILENT) -> HashSet:
    """The hashes of all files that the other tables reach. Strict: one unreadable file stops it."""
    live = HashSet()
    with progress.task("protected") as task:
        for claim in others:
            if claim.metadata is not None:
                for batch in reached_files(stores, claim.metadata, Strict()):
                    live.add(path_hashes(batch))
                    task.advance(batch.num_rows)
    return live
