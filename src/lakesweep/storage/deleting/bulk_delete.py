"""Delete files in bulk: batches of files in, one outcome for each file out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    LeaseHeldError,
    StoppedError,
    ThrottledError,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.storage.deleting.store_groups import RowNumbers, StoreGroup, group_by_store
from lakesweep.storage.deleting.unchanged import delete_unchanged
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.listing.key_splits import local_store_of
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import Deletion, Expected, ObjectStore, Outcome, StoreOpener
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.termination import TerminatedError, deferred, is_due

#: Deletes the files of the batches and yields their outcomes.
Deleter = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Files are processed in windows of this size: full requests to any store, in little memory.
_WINDOW_ROWS = 8_000

_INPUT = pa.schema([("path", pa.string()), ("size_bytes", pa.int64())])
_LISTED = pa.schema([*_INPUT, ("modified", pa.timestamp("us", tz="UTC")), ("etag", pa.string())])
_Texts = npt.NDArray[np.object_]


def delete_files(
    stores: StoreOpener,
    batches: Iterable[pa.RecordBatch],
    *,
    workers: int | None = None,
    limiter: DeleteLimiter | None = None,
    verify: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Delete files, given as batches with `path` and `size_bytes`; batches of OUTCOME_SCHEMA.

    With `verify`, files are compared with what the batches say about them (`size_bytes`,
    `modified`, `etag`, if present) wherever the store supports that; files that changed are kept.

    Requests start in input order, several at once (`workers`; by default as many as the store
    recommends), and outcomes come in input order. To delete one set of files before another, make
    two calls with the same `limiter`, which applies to all stores together.

    No file raises: an invalid address, a store that cannot be opened and a request without a
    response are outcomes, and the work continues. An unknown outcome is never reported as deleted.
    An error of `batches` itself is raised after the outcomes of the batches before it. So is
    TerminatedError: a process that is told to end sends no further request.

    A path that recurs while its first request is being assembled (8,000 files) has one outcome;
    later it is a new delete. Another spelling of the same key is then absent.
    """
    with deferred():
        yield from _delete_files(stores, batches, workers, limiter, verify=verify)
        if is_due():
            raise TerminatedError("ended by SIGTERM")


def _delete_files(
    stores: StoreOpener,
    batches: Iterable[pa.RecordBatch],
    workers: int | None,
    limiter: DeleteLimiter | None,
    *,
    verify: bool,
) -> Iterator[pa.RecordBatch]:
    source = _Source(batches, _LISTED if verify else _INPUT)
    limiter = limiter or DeleteLimiter(SystemClock(), UNLIMITED)
    limit = min(limiter.rate.largest_batch or _WINDOW_ROWS, _WINDOW_ROWS)
    # Generators all the way: memory is bounded by a few windows, whatever the number of files.
    unstopped = takewhile(lambda _: not is_due(), _windows(source))
    windows = (_Window(stores, files, limit) for files in unstopped)
    first = next(windows, None)
    if first is not None:
        requests = (request for window in chain([first], windows) for request in window.requests)
        answers = map_ordered(
            _send, _limited(requests, limiter), workers=workers or first.parallel_deletes
        )
        for answer in answers:
            answer.window.fill(answer)
            if answer.window.is_complete:
                yield answer.window.outcomes()
    source.raise_error()


def make_deleter(
    stores: StoreOpener, clock: Clock, rate: DeleteRate, *, verify: bool = False
) -> Deleter:
    """A function that deletes files at one rate, over all of its calls."""
    return partial(delete_files, stores, limiter=DeleteLimiter(clock, rate), verify=verify)


class _Window:
    """Some files of the input, the requests that delete them, and their outcomes so far."""

    def __init__(self, stores: StoreOpener, files: pa.RecordBatch, limit: int) -> None:
        self._files = _distinct(files)
        self._outcomes: _Texts = np.empty(self._files.num_rows, dtype=object)
        self._reasons: _Texts = np.empty(self._files.num_rows, dtype=object)
        self.parallel_deletes = 1
        groups, rejected = group_by_store(self._files.column("path"))
        self.requests = [_Request(self, group.rows, reason=group.reason) for group in rejected]
        for group in groups:
            self.requests += self._requests_to(stores, group, limit)
        # Input order across stores: callers may rely on earlier files being requested first.
        self.requests.sort(key=lambda request: int(request.rows[0]))
        self._unanswered = len(self.requests)

    @property
    def is_complete(self) -> bool:
        return not self._unanswered

    def fill(self, answer: _Answer) -> None:
        """Store the outcomes of one request."""
        self._outcomes[answer.rows] = answer.outcomes
        self._reasons[answer.rows] = answer.reasons
        self._unanswered -= 1

    def outcomes(self) -> pa.RecordBatch:
        """One row for each file, in the order of the input."""
        path, size_bytes, *_ = self._files.columns
        outcome, reason = (
            pa.array(self._outcomes, pa.string()),
            pa.array(self._reasons, pa.string()),
        )
        return pa.RecordBatch.from_arrays(
            [path, outcome, reason, size_bytes], schema=OUTCOME_SCHEMA
        )

    def _requests_to(
        self, stores: StoreOpener, group: StoreGroup, limit: int
    ) -> Iterator[_Request]:
        try:
            store = stores.open(group.root)
            capabilities = store.capabilities
        except Exception as error:
            yield _Request(self, group.rows, reason=f"the store cannot be opened: {error}")
            return
        self.parallel_deletes = max(self.parallel_deletes, capabilities.parallel_deletes)
        size = min(limit, capabilities.delete_batch)
        yield from _cut(self, store, group, size, self._expected(group))

    def _expected(self, group: StoreGroup) -> Sequence[Expected] | None:
        """What the input says about the files of a group."""
        if self._files.num_columns < len(_LISTED):
            return None
        _, *listed = self._files.take(pa.array(group.rows)).columns
        sizes, modified, etags = listed
        columns = (sizes, modified.cast(pa.int64()), etags)
        return list(map(Expected, *(column.to_pylist() for column in columns)))


@dataclass(frozen=True, slots=True)
class _Request:
    """Distinct keys to delete in one call of `store`; without a store, the `reason` why not.

    `positions` maps each row of the window to its key. `expected` is the state in which the objects
    were listed.
    """

    window: _Window
    rows: RowNumbers
    store: ObjectStore | None = None
    keys: Sequence[str] = ()
    positions: RowNumbers | None = None
    expected: Sequence[Expected] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The outcomes for the rows of a request."""

    window: _Window
    rows: RowNumbers
    outcomes: _Texts | str
    reasons: _Texts | str


def _limited(requests: Iterable[_Request], limiter: DeleteLimiter) -> Iterator[_Request]:
    """Each request when the limiter lets it pass; at once if none is sent any more."""
    for request in requests:
        if request.keys and not is_due():
            limiter.wait(len(request.keys))
        yield request


class _Source:
    """The input; its own error is raised only after everything before it is processed."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._schema = schema
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield _chosen(batch, self._schema)
        except Exception as error:
            self._error = error

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def _chosen(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema; null for optional ones that the batch lacks."""
    needed = set(_INPUT.names)
    columns = [
        batch[field.name].cast(field.type)
        if field.name in needed or field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in batches of exactly one window, except the last."""
    waiting: list[pa.RecordBatch] = []
    missing = _WINDOW_ROWS
    for batch in batches:
        rest = batch
        while rest.num_rows >= missing:
            yield pa.concat_batches([*waiting, rest.slice(0, missing)])
            rest, waiting, missing = rest.slice(missing), [], _WINDOW_ROWS
        if rest.num_rows:
            waiting.append(rest)
            missing -= rest.num_rows
    if waiting:
        yield pa.concat_batches(waiting)


def _distinct(files: pa.RecordBatch) -> pa.RecordBatch:
    """The first row of each path; a null path becomes empty, which names nothing."""
    path = files.column("path").fill_null("").dictionary_encode()
    firsts = _firsts(path.indices.to_numpy())
    others = [column.take(pa.array(firsts)) for column in files.columns[1:]]
    return pa.RecordBatch.from_arrays([path.dictionary, *others], schema=files.schema)


def _firsts(numbers: RowNumbers) -> RowNumbers:
    """The position of the first occurrence of each number."""
    return np.unique(numbers, return_index=True)[1]


def _cut(
    window: _Window,
    store: ObjectStore,
    group: StoreGroup,
    size: int,
    expected: Sequence[Expected] | None,
) -> Iterator[_Request]:
    """The keys of a group as requests, each key once, numbered by first occurrence."""
    encoded = group.keys.dictionary_encode()
    keys = encoded.dictionary.to_pylist()
    numbers = encoded.indices.to_numpy()
    if expected is not None:
        expected = [expected[row] for row in _firsts(numbers)]
    for start in range(0, len(keys), size):
        inside = np.flatnonzero((numbers >= start) & (numbers < start + size))
        yield _Request(
            window,
            group.rows[inside],
            store,
            keys[start : start + size],
            numbers[inside] - start,
            None if expected is None else expected[start : start + size],
        )


def _send(request: _Request) -> _Answer:
    if request.store is None or request.positions is None:
        return _Answer(request.window, request.rows, Outcome.FAILED, request.reason)
    if is_due():
        return _Answer(request.window, request.rows, Outcome.UNSENT, "the process was told to end")
    try:
        deletions = delete_unchanged(request.store, request.keys, request.expected)
    except Exception as error:  # the other requests continue; these outcomes are unknown
        return _Answer(request.window, request.rows, _outcome_of(error), _unknown(error))
    # Outcomes are matched by position, so a response for other keys must not be used at all.
    if [deletion.key for deletion in deletions] != list(request.keys):
        reason = _unknown("the store responded for other keys than requested")
        return _Answer(request.window, request.rows, Outcome.FAILED, reason)
    return _answer(request, request.positions, deletions)


def _answer(request: _Request, positions: RowNumbers, deletions: Sequence[Deletion]) -> _Answer:
    outcomes = np.array([deletion.outcome.value for deletion in deletions], dtype=object)[positions]
    reasons = np.array([deletion.reason for deletion in deletions], dtype=object)[positions]
    if len(positions) > len(deletions):
        is_again = np.ones(len(positions), dtype=bool)
        # One delete cannot remove an object twice: the second spelling of a key is counted as
        # absent.
        is_again[_firsts(positions)] = False
        is_again &= outcomes == Outcome.DELETED.value
        outcomes[is_again] = Outcome.ABSENT.value
        reasons[is_again] = "deleted under another spelling of its address"
    return _Answer(request.window, request.rows, outcomes, reasons)


def _outcome_of(error: Exception) -> Outcome:
    match error:
        case ThrottledError():
            return Outcome.THROTTLED
        case DeniedError():
            return Outcome.DENIED
        case LeaseHeldError() | StoppedError():
            return Outcome.UNSENT
        case _:
            return Outcome.FAILED


def _unknown(cause: Exception | str) -> str:
    expected = isinstance(cause, LakesweepError | str)
    return f"outcome unknown: {cause}" if expected else f"outcome unknown: {cause!r}"


def remove_folder(stores: StoreOpener, address: str) -> None:
    """Delete everything in one of Lakesweep's own folders; leftovers do no harm."""
    place = parse(address)
    with suppress(LakesweepError):
        local = local_store_of(stores.open(place))
        if local is not None:
            local.remove_folder(place.key.rstrip("/"))  # and the folders themselves
            return
        for _ in delete_files(stores, list_files(stores, place.child(place.folder))):
            pass
