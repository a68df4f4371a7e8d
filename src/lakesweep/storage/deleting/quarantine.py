"""Quarantine: deletes that can be undone until their hold ends.

In a versioned bucket a file is deleted and its version stays below a delete marker. Elsewhere
the file is moved to a folder of the same store, under its whole old key. Everything needed to
find it again, its path and the quarantine folders, is known before it is moved. So a crash at
any moment loses nothing, and each of these kernels can be repeated over the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import Address, parse
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.quarantine_store import (
    QuarantineFolders,
    QuarantineMethod,
    QuarantineStore,
    quarantine_method,
    quarantine_paths,
)
from lakesweep.storage.deleting.store_groups import group_by_store
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.moves import object_exists
from lakesweep.storage.object_store import Outcome, StoreOpener
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter

#: The outcome and method of quarantining a file. `moved_to` is where its copy may be.
QUARANTINE_SCHEMA = pa.schema(
    [*OUTCOME_SCHEMA, pa.field("way", pa.string()), pa.field("moved_to", pa.string())]
)

#: Outcomes that leave no copy, whatever the method.
_NOT_MOVED = frozenset({Outcome.ABSENT.value, Outcome.CHANGED.value})
#: Stands for a copy that is about to be deleted.
_COPIED = ("", None)
_Texts = npt.NDArray[np.object_]
_WORKERS = 16


def quarantine_files(
    stores: StoreOpener,
    batches: Iterable[pa.RecordBatch],
    folders: QuarantineFolders,
    *,
    workers: int | None = None,
    limiter: DeleteLimiter | None = None,
    verify: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Quarantine files instead of deleting them; like `delete_files`, with QUARANTINE_SCHEMA.

    Files are QUARANTINED even if an earlier call with the same folders moved them.
    """
    undoable = _QuarantineStores(stores, folders)
    outcomes = delete_files(undoable, batches, workers=workers, limiter=limiter, verify=verify)
    return map(undoable.describe, outcomes)


def held_files(
    stores: StoreOpener, batches: Iterable[pa.RecordBatch], folders: QuarantineFolders
) -> Iterator[pa.RecordBatch]:
    """Files that were to be quarantined, with the `way` and `moved_to` to find them again.

    For restoring or emptying after a crash, when it is unknown which files were moved.
    """
    for batch in batches:
        methods = _per_store(batch["path"], lambda root: quarantine_method(stores.open(root)).value)
        columns = [*batch.columns, pa.array(methods, pa.string())]
        columns.append(quarantine_paths(batch["path"], folders))
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "way", "moved_to"])


def empty_quarantine(
    stores: StoreOpener, batches: Iterable[pa.RecordBatch], *, limiter: DeleteLimiter | None = None
) -> Iterator[pa.RecordBatch]:
    """End the hold of files, given by `path`, `size_bytes`, `way` and `moved_to`.

    Returns OUTCOME_SCHEMA: moved files are DELETED for good. Versions below delete markers are
    HELD: they end by a lifecycle rule of the bucket, or are deleted by an administrator.
    """
    for batch in batches:
        found = _Emptied(batch)
        for outcomes in delete_files(stores, [found.copies], limiter=limiter):
            found.fill(outcomes)
        yield found.outcomes()


def keep_held(stores: StoreOpener, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keep files in quarantine that something now references: a batch of OUTCOME_SCHEMA.

    Files that were restored or never moved are ABSENT; if that is unknown, they are kept.
    """
    columns = (batch[name].to_pylist() for name in ("path", "way", "moved_to"))
    held = map_ordered(partial(_is_held, stores), zip(*columns, strict=True), workers=_WORKERS)
    outcomes = [(Outcome.REFERENCED if is_held else Outcome.ABSENT).value for is_held in held]
    reasons = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays(
        [batch["path"], pa.array(outcomes, pa.string()), reasons, batch["size_bytes"]],
        schema=OUTCOME_SCHEMA,
    )


def _is_held(stores: StoreOpener, file: tuple[str, str | None, str | None]) -> bool:
    path, method, moved_to = file
    try:
        if moved_to is not None and _is_stored(stores, moved_to):
            return True
        return method == QuarantineMethod.MARKER.value and not _is_stored(stores, path)
    except LakesweepError:
        return True  # fail safe: keep what cannot be checked


def _is_stored(stores: StoreOpener, path: str) -> bool:
    place = parse(path)
    return object_exists(stores.open(place), place.key)


class _Emptied:
    """Some files whose hold ends, and their outcomes."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._files = batch
        self._rows: dict[str, list[int]] = {}
        self._ends: list[tuple[str, str | None]] = []
        columns = (batch[name].to_pylist() for name in ("path", "way", "moved_to"))
        for row, (path, method, moved_to) in enumerate(zip(*columns, strict=True)):
            self._ends.append(_end(path, method, moved_to))
            if self._ends[row] == _COPIED:
                # One copy may serve several rows: delete it once, and give all of them its outcome.
                self._rows.setdefault(moved_to, []).append(row)

    @property
    def copies(self) -> pa.RecordBatch:
        """The copies to delete."""
        paths = pa.array(self._rows, pa.string())
        columns = {"path": paths, "size_bytes": pa.nulls(len(paths), pa.int64())}
        return pa.RecordBatch.from_pydict(columns)

    def fill(self, outcomes: pa.RecordBatch) -> None:
        """Store the outcomes of copies."""
        columns = (outcomes[name].to_pylist() for name in ("path", "outcome", "reason"))
        for moved_to, outcome, reason in zip(*columns, strict=True):
            for row in self._rows[moved_to]:
                self._ends[row] = (outcome, reason)

    def outcomes(self) -> pa.RecordBatch:
        """One row for each file."""
        outcomes, reasons = zip(*self._ends, strict=True) if self._ends else ((), ())
        return pa.RecordBatch.from_arrays(
            [
                self._files["path"],
                pa.array(outcomes, pa.string()),
                pa.array(reasons, pa.string()),
                self._files["size_bytes"],
            ],
            schema=OUTCOME_SCHEMA,
        )


class _QuarantineStores:
    """Opens stores whose deletes can be undone."""

    def __init__(self, stores: StoreOpener, folders: QuarantineFolders) -> None:
        self._stores = stores
        self._folders = folders
        self._opened: dict[str, QuarantineStore] = {}

    def open(self, address: Address) -> QuarantineStore:
        store = self._opened.get(address.store_id)
        if store is None:
            store = QuarantineStore(self._stores.open(address), address, self._folders)
            self._opened[address.store_id] = store
        return store

    def describe(self, outcomes: pa.RecordBatch) -> pa.RecordBatch:
        """Outcomes with the method used for each file, and its new location."""
        paths = outcomes["path"]
        methods = _per_store(paths, self._method)
        moved = quarantine_paths(paths, self._folders).to_numpy(zero_copy_only=False)
        is_left = np.isin(outcomes["outcome"].to_numpy(zero_copy_only=False), list(_NOT_MOVED))
        moved[is_left | (methods == QuarantineMethod.MARKER.value)] = None
        return pa.RecordBatch.from_arrays(
            [*outcomes.columns, pa.array(methods, pa.string()), pa.array(moved, pa.string())],
            schema=QUARANTINE_SCHEMA,
        )

    def _method(self, root: Address) -> str | None:
        store = self._opened.get(root.store_id)
        return None if store is None else store.method.value


def _end(path: str, method: str | None, moved_to: str | None) -> tuple[str, str | None]:
    """The outcome when a hold ends; `_COPIED` if there is a copy to delete."""
    if method == QuarantineMethod.MARKER.value:
        return Outcome.HELD.value, "its version stays until a lifecycle rule removes it"
    if moved_to is None:
        return Outcome.ABSENT.value, "was not moved"
    if not is_copy_of(moved_to, path):
        return Outcome.FAILED.value, f"{moved_to} is not where quarantine would have put it"
    return _COPIED


def is_copy_of(moved_to: str, path: str) -> bool:
    """Whether an address can be a file's copy in quarantine: a damaged row might name any file."""
    copy, file = parse(moved_to), parse(path)
    is_below = copy.key.endswith("/" + file.key) and len(copy.key) > len(file.key) + 1
    return copy.store_id == file.store_id and is_below


def _per_store(paths: pa.Array, of_store: Callable[[Address], str | None]) -> _Texts:
    """One text for each path, by its store; None if it names no object."""
    found = np.full(len(paths), None, dtype=object)
    for group in group_by_store(paths)[0]:
        found[group.rows] = of_store(group.root)
    return found
