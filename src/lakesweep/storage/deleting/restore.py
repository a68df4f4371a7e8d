"""Restore files from quarantine, each under its old key or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import pyarrow as pa

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    LakesweepError,
    MissingError,
    UnsupportedError,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.storage.deleting.quarantine import is_copy_of
from lakesweep.storage.deleting.quarantine_store import outcome_of
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.moves import finish_move
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ObjectStore,
    Outcome,
    StoreOpener,
    is_expected,
)
from lakesweep.termination import TerminatedError, deferred, is_due, termination_reason

_WORKERS = 16
_IDENTIFYING = ("size_bytes", "modified", "etag")


def restore_files(
    stores: StoreOpener, batches: Iterable[pa.RecordBatch], *, workers: int = _WORKERS
) -> Iterator[pa.RecordBatch]:
    """Restore files, given by `path` and `moved_to`; returns batches of OUTCOME_SCHEMA.

    `size_bytes`, `modified` and `etag`, if present, distinguish the file from others that had its
    key. A file is RESTORED, even if it never left; OCCUPIED if another file has its key, in which
    case it stays in quarantine; ABSENT if it is in neither place.

    A process that is told to end finishes the files under way, then raises TerminatedError.
    """
    with deferred():
        yield from _restore_files(stores, takewhile(lambda _: not is_due(), batches), workers)
        if is_due():
            raise TerminatedError(termination_reason())


def _restore_files(
    stores: StoreOpener, batches: Iterable[pa.RecordBatch], workers: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        files = list(_files(batch))
        deletions = map_ordered(partial(_restore, stores), files, workers=workers)
        outcomes = [(deletion.outcome.value, deletion.reason) for deletion in deletions]
        columns = zip(*outcomes, strict=True) if outcomes else ((), ())
        outcome, reason = (pa.array(column, pa.string()) for column in columns)
        yield pa.RecordBatch.from_arrays(
            [batch["path"], outcome, reason, batch["size_bytes"]], schema=OUTCOME_SCHEMA
        )


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    moved_to: str | None
    expected: Expected


def _files(batch: pa.RecordBatch) -> Iterator[_File]:
    known = [_column(batch, name) for name in _IDENTIFYING]
    columns = (batch["path"].to_pylist(), batch["moved_to"].to_pylist(), *known)
    for path, moved_to, *values in zip(*columns, strict=True):
        yield _File(path, moved_to, Expected(*values))


def _column(batch: pa.RecordBatch, name: str) -> list[object]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch[name]
    values: list[object] = (column.cast(pa.int64()) if name == "modified" else column).to_pylist()
    return values


def _restore(stores: StoreOpener, file: _File) -> Deletion:
    if is_due():
        return Deletion(file.path, Outcome.UNSENT, "the process was told to end")
    try:
        address = parse(file.path)
        # A damaged record must not make restore move an unrelated file.
        if file.moved_to is not None and not is_copy_of(file.moved_to, file.path):
            reason = f"{file.moved_to} is not where quarantine would have put it"
            return Deletion(address.key, Outcome.FAILED, reason)
        moved = None if file.moved_to is None else parse(file.moved_to).key
        return _restore_from(stores.open(address), address.key, moved, file.expected)
    except LakesweepError as error:
        return Deletion(file.path, outcome_of(error), error.message)


def _restore_from(store: ObjectStore, key: str, moved: str | None, expected: Expected) -> Deletion:
    """Restore from the copy, or else from below a delete marker."""
    # The copy comes first: it is certainly the file that the plan deleted.
    found = None if moved is None else _move_back(store, moved, key)
    if found is None:
        # Also if nothing is in quarantine: the bucket may have been versioned by the time of the
        # delete.
        found = _undelete(store, key, expected)
    return found or _outcome_in_place(store, key, moved, expected)


def _move_back(store: ObjectStore, moved: str, key: str) -> Deletion | None:
    """None if nothing is in quarantine."""
    try:
        store.move(moved, key)
    except MissingError:
        return None
    except ExistsError:
        # An earlier attempt may have copied it back without deleting the copy in quarantine.
        # The two are compared before the copy goes, so a crash between the steps loses neither.
        if not finish_move(store, moved, key):
            return Deletion(key, Outcome.OCCUPIED, "another file now has its key")
    return Deletion(key, Outcome.RESTORED)


def _undelete(store: ObjectStore, key: str, expected: Expected) -> Deletion | None:
    """None if nothing is deleted, or no versions were ever kept."""
    try:
        store.undelete(key, expected)
    except (MissingError, UnsupportedError):
        return None
    except ChangedError:
        return Deletion(
            key, Outcome.CHANGED, "the object last deleted under this key is another file"
        )
    return Deletion(key, Outcome.RESTORED)


def _outcome_in_place(
    store: ObjectStore, key: str, moved: str | None, expected: Expected
) -> Deletion:
    """The outcome for a file that is not in quarantine."""
    if moved is not None:
        # A copy has the same size, but may have another time and etag.
        expected = Expected(expected.size_bytes)
    try:
        info = store.head(key)
    except MissingError:
        return Deletion(key, Outcome.ABSENT, "is neither in quarantine nor at its key")
    if is_expected(info, expected):
        return Deletion(key, Outcome.RESTORED, "was already at its key")
    return Deletion(key, Outcome.OCCUPIED, "another file has its key, and it is not in quarantine")
