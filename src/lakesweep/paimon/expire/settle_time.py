"""The clock of a table's store, and waits by it.

Before files are deleted, whatever was being created from a deleted snapshot must be written.

A tag, a branch or a consumer is created by reading a snapshot and writing a file some moments
later. If the snapshot is deleted in between, nothing shows that its files are needed until the
file is there.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from lakesweep.errors import UnavailableError
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import parse
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.file_batches import file_batch
from lakesweep.storage.local.empty_folders import remove_empty_folders

#: A tag takes milliseconds on a disk and up to seconds in a bucket that throttles its writer.
SETTLE = timedelta(seconds=10)
_ATTEMPTS = 20


def wait_by_store(table: PaimonTable, folder: str, settle: timedelta) -> None:
    """Wait for `settle`, by our own clock and by that of the store.

    The store's clock is the one that counts: it sees the writes of all others. It is read from an
    object that is written to `folder`, one of our own.
    """
    if settle <= timedelta():
        return
    start = _store_time(table, folder)
    left = settle
    for _ in range(_ATTEMPTS):
        table.clock.sleep(left.total_seconds())
        now = _store_time(table, folder)
        if start is None or now is None or now - start >= settle:
            return
        left = settle - (now - start)
    raise UnavailableError(
        folder,
        "the clock of its store is not moving, so it is unknown whether a new tag is complete",
        hint="the snapshots have expired; run the command again to delete their files",
    )


def store_time(table: PaimonTable) -> datetime | None:
    """What time it is for the table's store, by an object that is written and deleted again."""
    folder = f"{table.address.path}{JOURNAL_FOLDER}/clock-{uuid4().hex}/"
    now = _store_time(table, folder)
    files = file_batch(PaimonKind.TEMPORARY, [(f"{folder}clock", None)])
    for _ in delete_files(table.stores, [files]):
        pass
    remove_empty_folders([folder], table.address.path)
    return now


def _store_time(table: PaimonTable, folder: str) -> datetime | None:
    place = parse(f"{folder}clock")
    store = table.stores.open(place)
    store.write(place.key, b"")
    return store.head(place.key).modified
