"""The journal of an expiry: everything it will delete, written before it deletes.

Once a snapshot is gone, nothing names the files that it alone held. So the list of files is first
written below `_lakesweep/` in the table's folder, as a dataset that exists completely or not at
all. A later run resumes an interrupted one: its files become candidates again, and are deleted
unless something now holds them.

Everyone who can write to the table can put a journal there. A journal is therefore believed
only as far as the store vouches for it: at this address, with this hash. All others are
reported and left alone.

Paimon looks for partitions (`key=value`), buckets (`bucket-…`) and its own folders in a table's
folder, and its orphan cleanup lists nothing else. That of Iceberg skips names that begin with `_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from lakesweep.errors import DamagedError, MissingError
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.local.empty_folders import remove_empty_folders
from lakesweep.storage.stores import Stores

#: Where journals are, below a table's folder.
_FOLDER = "_lakesweep"
_PREFIX = "expiry-"
_COMMITTED = "_dataset.json"
#: The state of a journal that was registered and never completed: its expiry deleted nothing.
UNFINISHED = ""

#: The hash that the store vouches for at the address of a journal, UNFINISHED, or None.
KnownJournal = Callable[[str], str | None]


class JournalLog(Protocol):
    """What the store records about the journals of one table, for one run that may delete.

    The calls for one journal come in this order, each after the step that it describes, so that a
    run that dies between any two of them leaves something that the next one understands.
    """

    def known(self, address: str) -> str | None:
        """The hash of the journal at an address, UNFINISHED, or None if the store knows none."""
        ...

    def recorded(self) -> Iterable[str]:
        """The addresses of all journals of the table that the store knows."""
        ...

    def register(self, address: str) -> None:
        """A journal is about to be written."""
        ...

    def vouch(self, address: str, sha256: str) -> None:
        """It is complete, and has this hash. From now on files may be deleted by it."""
        ...

    def forget(self, address: str) -> None:
        """It was carried out, or was never completed, and is gone."""
        ...

    def check(self) -> None:
        """LeaseHeldError unless this run may still delete."""
        ...


@dataclass(frozen=True, slots=True)
class JournaledTable:
    """A table with journals; its folder ends in `/`."""

    stores: Stores
    folder: str


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal of this table that the store knows."""

    table: JournaledTable
    address: str
    sha256: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The files to delete; DamagedError if they are not the ones that the store vouches for.

        Every part is compared with its hash before its first row is returned.
        """
        stores = self.table.stores
        try:
            dataset = load_dataset(stores, self.address)
        except MissingError:
            return  # another run has finished it
        if dataset.sha256 != self.sha256:
            raise DamagedError(self.address, "was changed after it was written")
        yield from read_dataset(stores, dataset)

    def remove(self) -> None:
        """Delete it, first the file that makes it complete."""
        # Without that file the rest is no dataset, so a removal that is cut off leaves no journal.
        files = list_level(self.table.stores, parse(self.address)).files.values()
        for pattern in (f"*/{_COMMITTED}", "*"):
            keys = [info.key for info in files if fnmatchcase(info.key, pattern)]
            for _ in delete_files(self.table.stores, _paths(self.table, keys)):
                pass
        remove_empty_folders([self.address], self.table.folder)


@dataclass(frozen=True, slots=True)
class IgnoredJournal:
    """A journal that is not carried out, and why."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundJournals:
    """The journals in a table's folder."""

    #: Complete and vouched for: their files may have lost their owners.
    interrupted: tuple[Journal, ...] = ()
    ignored: tuple[IgnoredJournal, ...] = ()


def write_journal(
    table: JournaledTable, log: JournalLog, batches: Iterable[pa.RecordBatch]
) -> Journal:
    """Write what an expiry will delete, and have the store vouch for it."""
    address = f"{table.folder}{_FOLDER}/{_PREFIX}{uuid4().hex}/"
    # Registered first: what a crash leaves half written is known to be ours, and is removed.
    log.register(address)
    dataset = write_dataset(table.stores, address, FILE_SCHEMA, batches)
    # Vouched for last: from now on the journal may delete. A crash before this line leaves a
    # registered one, by which nothing is ever deleted.
    log.vouch(address, dataset.sha256)
    return Journal(table, address, dataset.sha256)


def has_journals(table: JournaledTable) -> bool:
    """Whether an expiry of the table is under way, or was interrupted."""
    return any(journal_folders(table))


def journal_folders(table: JournaledTable, prefix: str = _PREFIX) -> Iterator[str]:
    """The folders of journals, or of what else is written down under a name that begins so.

    Links are not followed: what they lead to is not the table's.
    """
    folder = parse(f"{table.folder}{_FOLDER}/")
    for name in sorted(list_level(table.stores, folder).folders):
        if name.startswith(prefix):
            yield f"{folder.path}{name}/"


def find_journals(table: JournaledTable, known: KnownJournal) -> FoundJournals:
    """All journals in a table's folder, as far as the store knows them."""
    found = [(address, known(address)) for address in journal_folders(table)]
    return FoundJournals(
        # By one that was never completed nothing was deleted.
        tuple(Journal(table, address, sha256) for address, sha256 in found if sha256),
        tuple(
            IgnoredJournal(address, "this store did not write it")
            for address, sha256 in found
            if sha256 is None
        ),
    )


def abandoned_journals(table: JournaledTable, log: JournalLog) -> Iterator[Journal]:
    """What dead runs left of journals that delete nothing: not yet complete, or already removed.

    Only for the run that holds the lease: another one may be writing a journal right now.
    """
    for address in log.recorded():
        sha256 = log.known(address)
        files = list_level(table.stores, parse(address)).files
        if sha256 is not None and (sha256 == UNFINISHED or not files):
            yield Journal(table, address, sha256)


def _paths(table: JournaledTable, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
    paths = [parse(table.folder).base + key for key in keys]
    yield pa.RecordBatch.from_pydict(
        {"path": pa.array(paths, pa.string()), "size_bytes": pa.nulls(len(paths), pa.int64())}
    )
