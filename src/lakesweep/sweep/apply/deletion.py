"""The step that deletes: rows of a plan in, one outcome per file out, stored as it happens.

Outcomes are stored a few thousand at a time, each part complete in itself. A run that resumes
a dead one reads what that did up to the last part, and at worst repeats what the crash cut
off.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.clock import SystemClock
from lakesweep.errors import LeaseHeldError, MissingError, PausedError, StoppedError
from lakesweep.runs.fencing import RequestFence, RunFence
from lakesweep.runs.run_figures import Recorded
from lakesweep.runs.task_progress import TaskCounter
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, is_part
from lakesweep.storage.datasets.writer import DatasetWriter, write_dataset
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import quarantine_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.file_batches import OUTCOME_SCHEMA, coalesce_batches
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import Outcome, StoreOpener
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.sweep.columns import HASHES, LISTING
from lakesweep.sweep.engine.protocol import task_result

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

#: At most this many files are deleted between two checks of the fence.
BATCH_ROWS = 4_000
#: A batch takes about this long on any store, so that a stop is noticed soon and no delete is sent
#: long after the lease has expired.
_BATCH_SECONDS = 5.0
_FIRST_ROWS = 200
#: Failures that one task reports by name.
_MOST_FAILURES = 100


class Removal(Protocol):
    """Deletes or quarantines files. Can be pickled."""

    @property
    def spec(self) -> Recorded:
        """What the run must record of it, so that it can be undone."""
        ...

    def __call__(
        self, stores: StoreOpener, batch: pa.RecordBatch, limiter: DeleteLimiter
    ) -> Iterator[pa.RecordBatch]:
        """Outcomes (OUTCOME_SCHEMA, perhaps with more columns) of files (VERDICTS)."""
        ...


@dataclass(frozen=True)
class DeleteRemoval:
    """Deletes files permanently, if they are still what was listed."""

    @property
    def spec(self) -> Recorded:
        return {}

    def __call__(
        self, stores: StoreOpener, batch: pa.RecordBatch, limiter: DeleteLimiter
    ) -> Iterator[pa.RecordBatch]:
        return delete_files(stores, [batch], limiter=limiter, verify=True)


@dataclass(frozen=True)
class QuarantineRemoval:
    """Moves files to quarantine, if they are still what was listed. Outcomes: QUARANTINE_SCHEMA.

    All runs of one plan need the same places, where one finds what another left half done.
    """

    places: QuarantineFolders

    @property
    def spec(self) -> Recorded:
        return {"places": msgspec.to_builtins(self.places)}

    def __call__(
        self, stores: StoreOpener, batch: pa.RecordBatch, limiter: DeleteLimiter
    ) -> Iterator[pa.RecordBatch]:
        return quarantine_files(stores, [batch], self.places, limiter=limiter)


def first_rows(rate: DeleteRate) -> int:
    """How many files to start with, before it is known how long they take."""
    rates = [each for each in (rate.files_per_second, rate.batches_per_second) if each]
    return min([_FIRST_ROWS, *(max(1, int(each * _BATCH_SECONDS)) for each in rates)])


@dataclass(frozen=True)
class DeleteStep:
    """Deletes files while the run may continue, and stores the outcomes as parts in a folder.

    Yields an OutcomeReport. A run that must end also yields `stopped` or `paused`, and deletes
    nothing more.
    """

    stores: Stores
    control: RunFence
    outcomes: str
    removal: Removal
    pace: DeleteRate
    schema: pa.Schema = OUTCOME_SCHEMA
    batch_rows: int = BATCH_ROWS
    counts: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally, counter = OutcomeTotals(), TaskCounter(self.stores, self.counts)
        limiter = DeleteLimiter(SystemClock(), self.pace)
        fence = RequestFence(self.control.verified_until, self.control.clock)
        rows = min(self.batch_rows, first_rows(self.pace))
        try:
            for waiting in coalesce_batches(batches, self.batch_rows):
                start = 0
                while start < waiting.num_rows:
                    # Before each batch, not after: a run that lost its lease must not send even one
                    # more request.
                    self.control.check()
                    batch = waiting.slice(start, rows)
                    seconds = self._remove(batch, limiter, tally, fence)
                    counter.add(batch.num_rows)
                    start, rows = start + rows, min(self.batch_rows, fitting_rows(rows, seconds))
        except PausedError as error:
            yield task_result("paused", [error.message])
        except (StoppedError, LeaseHeldError) as error:
            yield task_result("stopped", [error.message])
        report = tally.report()
        failures = report.failures[:_MOST_FAILURES]
        yield task_result("tally", [msgspec.structs.replace(report, failures=failures)])

    def _remove(
        self,
        batch: pa.RecordBatch,
        limiter: DeleteLimiter,
        tally: OutcomeTotals,
        fence: RequestFence,
    ) -> float:
        """The seconds that it took. StoppedError or LeaseHeldError if some was not requested."""
        begin = time.monotonic()
        writer = DatasetWriter(self.stores, self.outcomes, self.schema)
        try:
            for outcomes in self.removal(FencedStores(self.stores, fence), batch, limiter):
                sent = outcomes.filter(pc.not_equal(outcomes["outcome"], Outcome.UNSENT.value))
                tally.add(sent)
                writer.add(sent)
        finally:
            writer.finish()
        # What was sent is stored already; the rest is left to the run that holds the lease.
        if fence.ended is not None:
            raise fence.ended
        return time.monotonic() - begin


@dataclass(frozen=True)
class RemainingStep:
    """Writes files (REFERENCED) that are not finished into parts of a dataset of LISTING."""

    stores: Stores
    address: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, LISTING)
        for batch in batches:
            writer.add(batch.filter(pc.invert(batch["referenced"])))
        yield task_result("part", writer.finish())


def write_finished(stores: Stores, outcomes: str, address: str) -> Dataset:
    """Write the hashes of files that are finished by the outcomes of any run in a folder.

    There are as many as files deleted by earlier runs, so they are never all in memory.
    """
    found = (
        _settled(batch)
        for path in outcome_parts(stores, outcomes)
        for batch in read_outcomes(stores, path, ["path", "outcome"])
    )
    return write_dataset(stores, address, HASHES, found)


def outcome_parts(stores: Stores, folder: str) -> Iterator[str]:
    """The addresses of the parts in a folder of outcomes, of all runs."""
    try:
        for batch in list_files(stores, f"{folder.rstrip('/')}/"):
            yield from (path for path in batch["path"].to_pylist() if is_part(path))
    except MissingError:
        return  # no run got as far as its first outcome


#: Outcomes that need no retry.
_SETTLED = [
    Outcome.DELETED.value,
    Outcome.ABSENT.value,
    Outcome.CHANGED.value,
    Outcome.QUARANTINED.value,
]


def _settled(outcomes: pa.RecordBatch) -> pa.RecordBatch:
    is_settled = pc.is_in(outcomes["outcome"], pa.array(_SETTLED))
    h1, h2 = hash_columns(file_hashes(outcomes["path"].filter(is_settled)))
    return pa.RecordBatch.from_arrays([h1, h2], schema=HASHES)


def read_outcomes(stores: Stores, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The outcomes of a part; none if it cannot be read, so that its files are tried again."""
    place = parse(path)
    data = stores.open(place).read(place.key)
    with suppress(pa.ArrowException):
        yield from pq.ParquetFile(pa.BufferReader(data)).iter_batches(columns=list(columns))


def fitting_rows(rows: int, seconds: float) -> int:
    """How many files to put in the next batch after one took this long; at most twice as many."""
    return max(1, int(rows * min(2.0, _BATCH_SECONDS / max(seconds, 1e-9))))
