"""Copies of the owners that an expiry removes, until it is certain that none of them is needed.

A rollback may choose a snapshot in the very moment in which an expiry removes it. The expiry then
writes it again. If it is killed before, the table has lost the only snapshot that it leads to. So
what owners say is written down first, and the store vouches for it as for the journal. The next
expiry of the table writes the target of the rollback again, before it chooses what expires.

Copies are removed before the first file is deleted that an owner held. So an owner is never written
again after some of its files are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa

from lakesweep.paimon.expire.snapshot_expiry import RemovedOwners, put_back_needed
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.snapshots import encode_snapshot, parse_snapshot
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.owners import FileOwner, OwnerFile
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.journal import (
    Journal,
    JournaledTable,
    JournalLog,
    KnownJournal,
    journal_folders,
)
from lakesweep.storage.object_store import ObjectInfo

#: What begins the name of a folder with copies.
_PREFIX = "owners-"
_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("document", pa.binary(), nullable=False),
        pa.field("earliest", pa.int64()),
        pa.field("hint", pa.int64()),
    ]
)


def write_copies(table: PaimonTable, log: JournalLog, removed: RemovedOwners) -> Journal:
    """Write down what owners say that are about to be removed."""
    rows = [
        {
            "kind": owner.kind.value,
            "branch": owner.branch.name,
            "name": owner.file.name,
            "key": owner.file.info.key,
            "document": encode_snapshot(owner.snapshot.raw),
            "earliest": removed.earliest,
            "hint": removed.hint,
        }
        for owner in removed.leaving
    ]
    address = f"{table.address.path}{JOURNAL_FOLDER}/{_PREFIX}{uuid4().hex}/"
    log.register(address)
    batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
    dataset = write_dataset(table.stores, address, _SCHEMA, [batch])
    log.vouch(address, dataset.sha256)
    return Journal(_place(table), address, dataset.sha256)


def has_copies(table: PaimonTable, known: KnownJournal) -> bool:
    """Whether an expiry removes owners right now, or was interrupted while it did."""
    return any(known(address) is not None for address in _folders(table))


def recover_owners(table: PaimonTable, log: JournalLog) -> Iterator[str]:
    """Write the owners again that a rollback leads to; the addresses of what was written.

    Only for the run that holds the lease. Copies that the store does not vouch for are ignored.
    """
    for address in list(_folders(table)):
        sha256 = log.known(address)
        if sha256 is None:
            continue
        copies = Journal(_place(table), address, sha256)
        for removed in _read(table, copies):
            folder = "snapshot" if removed.leaving[0].kind is PaimonKind.SNAPSHOT else "changelog"
            # Consumers find out that their snapshot has expired; its files may be gone by now.
            files = [owner.file for owner in removed.leaving]
            yield from (file.path for file in put_back_needed(removed, folder, files, ()))
        log.check()
        copies.remove()
        log.forget(address)


def _place(table: PaimonTable) -> JournaledTable:
    return JournaledTable(table.stores, table.address.path)


def _folders(table: PaimonTable) -> Iterator[str]:
    return journal_folders(_place(table), _PREFIX)


def _read(table: PaimonTable, copies: Journal) -> Iterator[RemovedOwners]:
    """The owners that copies are of; none if they were not completed, and nothing was removed."""
    if not copies.sha256:
        return
    rows = [row for batch in copies.batches() for row in batch.to_pylist()]
    if not rows:
        return
    branch = table.branch(rows[0]["branch"])
    owners = []
    for row in rows:
        info = ObjectInfo(row["key"], 0, None, None)
        file = OwnerFile(PaimonKind(row["kind"]), branch, row["name"], info)
        owners.append(FileOwner(file, parse_snapshot(file.path, row["document"])))
    yield RemovedOwners(branch, tuple(owners), rows[0]["earliest"], rows[0]["hint"])
