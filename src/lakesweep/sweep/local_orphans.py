"""Clean Paimon tables of orphan files in this process.

It leaves the same traces as a sweep, in the same order: a lease, a run record, a stored plan
that names every file, and outcomes as they happen; and the fence is checked before each batch.
Only the innermost part differs: used names are an exact set in memory, and new owners are read
right before each batch. docs/decisions/0020 has the measurements behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.config import LakeSection, PaimonWarehouseRoot, Root
from lakesweep.errors import LakesweepError, StoppedError
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.model.warehouse import FailedTable
from lakesweep.paimon.orphans.folders import bucket_folders, remove_empty
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, OrphanPlan
from lakesweep.progress import SILENT, Progress, ProgressTask
from lakesweep.runs.fencing import FenceWriter, RunFence
from lakesweep.runs.records import PlanRecord, RunKind, RunStatus, new_name, run_folder, table_lake
from lakesweep.runs.run_figures import Recorded, recorded_figures
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.apply.deletion import DeleteStep
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from lakesweep.sweep.judge.totals import FileTotals
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument, RootCounts, dataset_ref
from lakesweep.sweep.plan.publication import PlanPruner
from lakesweep.sweep.plan.stored_plan import publish_plan
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.clock import Clock
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.storage.stores import Stores
    from lakesweep.storage.wrappers.rate_limit import DeleteLimiter


_ENGINE = "local"

#: Of a batch of orphans, those that nothing else than the tables needs.
SpareOthers = Callable[[pa.RecordBatch], pa.RecordBatch]
WatchOthers = Callable[[OrphanPlan], AbstractContextManager[SpareOthers]]


@dataclass(frozen=True)
class OrphanRemover:
    """Deletes what `plan_orphans` found, one group of tables after the other.

    `path` is the address to clean, `plans` the folder of all plans. `open_runs` is called only if
    there is something to delete. `watch` is entered before the first file of a group is deleted,
    and leaves out what others need. Lakesweep's own files are `kept`.
    """

    stores: Stores
    open_runs: Callable[[], RunLog]
    clock: Clock
    plans: str
    path: str
    rate: DeleteRate
    progress: Progress = SILENT
    watch: WatchOthers = lambda _: nullcontext(lambda batch: batch)
    kept: tuple[str, ...] = ()

    def remove(self, found: Sequence[OrphanPlan], outcome: OrphanOutcome) -> Sequence[FailedTable]:
        """Delete the orphans that are still unused, then buckets and partitions that are empty.

        LeaseHeldError if another run is cleaning the same address; then nothing is deleted.
        """
        if any(each.total_files for each in found):
            return self._delete(found, outcome)
        return [failure for each in found for failure in _remove_folders(each, outcome)]

    def _delete(self, found: Sequence[OrphanPlan], outcome: OrphanOutcome) -> Sequence[FailedTable]:
        """Take the lease, store the plan, then delete what it names."""
        runs, lake = self.open_runs(), self._lake(found)
        name = new_name(RunKind.PLAN, self.clock)
        spec = orphan_spec(_ENGINE, self.path)
        with run_session(runs, lake.name, RunKind.APPLY, plan=name, spec=spec) as session:
            self._publish(runs, lake, name, session, found)
            plan = runs.claim(name, session.record.run, resumes=None)
            fence = self._fence(plan, session)
            writer = FenceWriter(fence, session.lease)
            writer.renew(session.lease)
            with session.lease.telling(writer.renew):
                failures = [
                    failure
                    for each in found
                    for failure in self._delete_group(each, plan, fence, outcome)
                ]
            _record(session, outcome, failures)
            if session.status is not RunStatus.STOPPED:
                runs.close_plan(plan)
            with suppress(LakesweepError):  # the next run removes old plans
                session.lease.check()
                PlanPruner(self.stores, runs, lake, self.clock.now()).prune()
        return failures

    def _delete_group(
        self, found: OrphanPlan, plan: PlanRecord, fence: RunFence, outcome: OrphanOutcome
    ) -> Sequence[FailedTable]:
        """Delete the orphans of one group; if that fails, the other groups are still cleaned."""
        try:
            with (
                self.progress.task("deleted", total=found.total_files) as task,
                self.watch(found) as spare,
            ):
                removal = UnusedRemoval(found, outcome, task, spare)
                step = DeleteStep(
                    self.stores, fence, f"{plan.address}/outcomes", removal, self.rate
                )
                with fence.stopped_by_signal():
                    results = pa.Table.from_batches(step(found.batches()), TASK_RESULTS)
            for message in results_of(results, "stopped", str):
                raise StoppedError(message, hint="run the same command again to delete the rest")
        except LakesweepError as error:
            return _failed(found.tables, error)
        return _remove_folders(found, outcome)

    def _lake(self, found: Sequence[OrphanPlan]) -> Lake:
        places = (
            place
            for each in found
            for table in each.tables
            for place in (table.address.path, *table.external_roots)
        )
        return orphan_lake(self.path, self.plans, places, kept=self.kept)

    def _fence(self, plan: PlanRecord, session: Session) -> RunFence:
        run = session.record.run
        folder = run_folder(plan.address, run)
        return RunFence(self.stores, folder, run, session.lease.token, self.clock)

    def _publish(
        self, runs: RunLog, lake: Lake, name: str, session: Session, found: Sequence[OrphanPlan]
    ) -> None:
        """Store every file that is about to be deleted: no delete is outside a stored plan."""
        address = f"{lake.plans}/{name}"
        rows = (_verdicts(batch) for each in found for batch in each.batches())
        datasets = {
            Verdict.DELETE: write_dataset(self.stores, f"{address}/delete", VERDICTS, rows),
            Verdict.KEEP: write_dataset(self.stores, f"{address}/keep", VERDICTS, ()),
        }
        document = PlanDocument(
            plan=name,
            lake=lake.name,
            created=session.started,
            # Only the run that stores this plan carries it out.
            expires=session.started,
            cut_off=found[0].cut,
            grace_seconds=max((session.started - found[0].cut).total_seconds(), 0.0),
            mode="exact",
            roots=RootCounts(complete=sum(len(each.tables) for each in found), incomplete=0),
            totals={Verdict.DELETE.value: {Reason.UNREFERENCED.value: _total(found)}},
            locations=lake.locations,
            spec=dict(orphan_spec(_ENGINE, self.path)),
            datasets={each.value: dataset_ref(each.value, it) for each, it in datasets.items()},
        )
        session.lease.check()
        publish_plan(self.stores, runs, address, document, session.lease.token)


@dataclass
class UnusedRemoval:
    """Deletes the files of each batch that are still unused.

    Owners are read right before the deletes, so only a commit within one batch can be missed.
    """

    found: OrphanPlan
    outcome: OrphanOutcome
    task: ProgressTask
    spare: SpareOthers

    @property
    def spec(self) -> Recorded:
        return {}

    def __call__(
        self, stores: StoreOpener, batch: pa.RecordBatch, limiter: DeleteLimiter
    ) -> Iterator[pa.RecordBatch]:
        unused = self.spare(self.found.still_unused(batch))
        self.outcome.spared += batch.num_rows - unused.num_rows
        for outcomes in delete_files(
            stores, [unused], workers=self.found.tables[0].threads, limiter=limiter, verify=True
        ):
            self.outcome.add(outcomes)
            self.task.advance(outcomes.num_rows)
            yield outcomes


def _total(found: Sequence[OrphanPlan]) -> FileTotals:
    return FileTotals(
        sum(each.total_files for each in found), sum(each.total_bytes for each in found)
    )


def _remove_folders(found: OrphanPlan, outcome: OrphanOutcome) -> Sequence[FailedTable]:
    """Remove buckets and partitions that are empty now, or have been for long."""
    folders = {folder for batch in found.batches() for folder in bucket_folders(batch)}
    try:
        outcome.folders += remove_empty(found.tables, folders, found.cut)
    except LakesweepError as error:
        return _failed(found.tables, error)
    return []


def _failed(tables: Sequence[PaimonTable], error: LakesweepError) -> list[FailedTable]:
    return [FailedTable(table.address.path, error) for table in tables]


def _verdicts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Orphans (FILE_SCHEMA) as rows of a plan."""
    rows = batch.num_rows
    low, high = hash_columns(file_hashes(batch["path"]))
    columns = {
        "verdict": pa.repeat(pa.scalar(Verdict.DELETE.value), rows),
        "reason": pa.repeat(pa.scalar(Reason.UNREFERENCED.value), rows),
        "rule": pa.nulls(rows, pa.string()),
        "table": pa.nulls(rows, pa.string()),
        "h1": low,
        "h2": high,
    }
    arrays = [columns[name] if name in columns else batch[name] for name in VERDICTS.names]
    return pa.RecordBatch.from_arrays(arrays, schema=VERDICTS)


def _record(session: Session, outcome: OrphanOutcome, failures: Sequence[FailedTable]) -> None:
    report = outcome.tally.report()
    session.figures = recorded_figures(report, kept_by_remark=outcome.spared)
    if failures:
        session.message = failures[0].error.message
    if any(isinstance(failure.error, StoppedError) for failure in failures):
        session.status = RunStatus.STOPPED
    elif failures or outcome.tally.failed:
        session.status = RunStatus.INCOMPLETE


def orphan_lake(
    path: str,
    plans: str,
    places: Iterable[str],
    *,
    kept: tuple[str, ...] = (),
    others: tuple[Root, ...] = (),
) -> Lake:
    """The folders of tables as a lake. Its name is that of the address that is cleaned.

    Files that are `kept` or that `others` reference stay.
    """
    name = table_lake("paimon", path)
    section = LakeSection(
        locations=tuple(dict.fromkeys(places)),
        roots=(PaimonWarehouseRoot(type="paimon-warehouse", path=path),),
    )
    return Lake(
        name,
        section,
        f"{plans.rstrip('/')}/{name}",
        kept=kept,
        roots_of_others=others,
        roots_stay=True,
    )


def orphan_spec(engine: str, path: str) -> dict[str, str]:
    """What the record of a run says about its request."""
    return {"engine": engine, "paimon": path}
