"""Runs of tasks that change one Iceberg table in place, perhaps by a stored plan.

All of them take the same lease. A stored plan is carried out once, no more than it names, and not
at all if files were restored since it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakesweep.app import App
from lakesweep.hashing import HashSet
from lakesweep.operations.tables.delete_runs import DeleteRun, quarantine_of_table, table_run
from lakesweep.runs.records import PlanRecord, RunKind, run_folder
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import Deleter, make_deleter
from lakesweep.storage.deleting.quarantine import quarantine_files
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.object_store import StoreOpener
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.references import listing_rows

#: Everything that changes a table in place takes the same lease: its tasks would undo each other.
UPKEEP_JOB = "iceberg-expiry"
_DELETES = "delete"


@dataclass(frozen=True)
class StoredTask:
    """A stored plan that a task carries out.

    Nothing leaves the table or its storage but the `files`. `spec` is what the run records of how
    it was asked for, and `quarantine` whether files are moved to the quarantine of the plan.
    `check` refuses a plan that is out of date.
    """

    record: PlanRecord
    files: HashSet
    spec: Mapping[str, Any]
    check: Callable[[], None]
    quarantine: bool = False

    def names(self, path: str) -> bool:
        """Whether the plan names a file."""
        return bool(self.files.contains(file_hashes(pa.array([path], pa.string())))[0])

    def among(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The files of a batch that the plan names."""
        return batch.filter(pa.array(self.files.contains(file_hashes(batch["path"]))))

    @property
    def quarantine_plan(self) -> str | None:
        """The plan in whose quarantine files go, if they do."""
        return self.record.plan if self.quarantine else None


@contextmanager
def task_run(
    app: App,
    location: str,
    kind: RunKind,
    spec: Mapping[str, Any],
    stored: StoredTask | None,
    failed: Callable[[], int] = int,
) -> Iterator[DeleteRun]:
    """A run of one table; it takes the stored plan, and closes it unless something `failed`."""
    if stored is None:
        with table_run(app, UPKEEP_JOB, location, kind, spec) as run:
            yield run
        return
    spec, name = {**spec, **stored.spec}, stored.record.plan
    with table_run(app, UPKEEP_JOB, location, RunKind.APPLY, spec, name) as run:
        stored.check()
        taken = app.runs.claim(name, run.sessions[0].record.run, resumes=stored.record.run)
        yield run
        if not failed():
            app.runs.close_plan(taken)


def task_deleter(
    app: App,
    run: DeleteRun,
    stores: StoreOpener,
    location: str,
    rate: DeleteRate,
    stored: StoredTask | None,
    quarantine: str | None,
    files: Callable[[], Iterable[pa.RecordBatch]],
) -> Deleter:
    """Deletes files, or moves them to the quarantine of a plan."""
    if quarantine is None:
        return make_deleter(stores, app.clock, rate)
    if stored is not None and quarantine == stored.record.plan:
        # Before the first move: whatever is quarantined is in a list that the store knows.
        session, address = run.sessions[0], stored.record.address
        folder = f"{run_folder(address, session.record.run)}/{_DELETES}"
        dataset = write_dataset(app.stores, folder, LISTING, listing_rows(files()))
        session.record = app.runs.vouch(session.record, _DELETES, dataset.sha256)
    places = quarantine_of_table(app, location, quarantine)
    limiter = DeleteLimiter(app.clock, rate)
    return lambda batches: quarantine_files(stores, batches, places, limiter=limiter)
