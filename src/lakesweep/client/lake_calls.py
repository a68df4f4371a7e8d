"""Operations over lakes, plans, runs and quarantine, carried out through a service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePath

import msgspec
import pyarrow as pa

from lakesweep.client.connection import ServiceConnection, pages, segment
from lakesweep.client.remote_jobs import RemoteJobs, arguments, failure_of
from lakesweep.errors import NotFoundError
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.lakes.apply import (
    ApplyPlanRequest,
    ApplyPlanResult,
    ApplyPreview,
    pending_of,
    preview_of,
)
from lakesweep.operations.lakes.approval import Decision, DecisionRequest, check_reason
from lakesweep.operations.lakes.check import (
    CheckedLake,
    CheckedRoots,
    CheckLakeRequest,
    CheckLakeResult,
)
from lakesweep.operations.lakes.explain import FileExplanation, ObjectExplanations
from lakesweep.operations.lakes.lakes import LakeLine, LakeList
from lakesweep.operations.lakes.live_runs import CancelRequested, RunEvent, RunProgressView
from lakesweep.operations.lakes.plan import PlanLakeRequest
from lakesweep.operations.lakes.plan_view import ExpiredPaths, PlanFilesRequest, PlanView
from lakesweep.operations.lakes.quarantine import (
    EmptyDryRun,
    EmptyQuarantineRequest,
    EmptyResult,
    QuarantineList,
    QuarantineView,
    RestoreResult,
)
from lakesweep.operations.lakes.repository_plan import PlanRepositoryRequest
from lakesweep.operations.lakes.runs import RunFilter, RunView
from lakesweep.operations.lakes.sweep import SweepRepositoryRequest, SweepRequest, SweepResult
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import OutputPage
from lakesweep.operations.store.store import MaintenanceView
from lakesweep.runs.run_figures import check_figures
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.columns import MISSING
from lakesweep.sweep.plan.document import IncompleteRoot, PlanDocument, PlanKind
from lakesweep.units import format_duration

_ARROW = "application/vnd.apache.arrow.stream"
_JSON_LINES = "application/x-ndjson"
#: The most that a service gives at once.
_MOST_LINES = 10_000


class _LakePage(LakeList, frozen=True, kw_only=True):
    next: str | None = None


class _RunPage(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[RunView, ...]
    next: str | None = None


class _QuarantinePage(QuarantineList, frozen=True, kw_only=True):
    next: str | None = None


class _AnyRun(msgspec.Struct, frozen=True):
    """A run of either kind; only those of the store count objects."""

    obj_stats: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _AnyPlan(msgspec.Struct, frozen=True):
    """A plan of any kind."""

    kind: PlanKind


class RemoteLakes:
    """Each method is an operation of the same name, without the app."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._service = connection
        self._jobs = RemoteJobs(connection)

    def list_lakes(self) -> LakeList:
        found = pages(self._service, "/lakes", _LakePage)
        lakes: tuple[LakeLine, ...] = tuple(lake for page in found for lake in page.lakes)
        return LakeList(lakes)

    def plan_lake(self, request: PlanLakeRequest, io: Interaction = SILENT_IO) -> PlanDocument:
        body = arguments(
            lake=request.lake,
            grace=None if request.grace is None else format_duration(request.grace),
            mode=request.mode,
            inventory=request.inventory,
            inventory_time=request.inventory_time,
            engine=request.engine,
            override=request.overridden,
        )
        return self._jobs.result("/plans", body, PlanDocument, io)

    def plan_repository(
        self, request: PlanRepositoryRequest, io: Interaction = SILENT_IO
    ) -> PlanDocument:
        path = f"/repositories/{segment(request.repository)}:plan"
        return self._jobs.result(path, _policy(request), PlanDocument, io)

    def sweep_lake(self, request: SweepRequest, io: Interaction = SILENT_IO) -> SweepResult:
        body = arguments(engine=request.engine, dry_run=request.dry_run, **_rates(request.rate))
        return self._jobs.result(f"/lakes/{segment(request.lake)}:sweep", body, SweepResult, io)

    def sweep_repository(
        self, request: SweepRepositoryRequest, io: Interaction = SILENT_IO
    ) -> SweepResult:
        path = f"/repositories/{segment(request.plan.repository)}:sweep"
        rates = arguments(dry_run=request.dry_run, **_rates(request.rate))
        return self._jobs.result(path, _policy(request.plan) | rates, SweepResult, io)

    def plan_kind(self, name: str) -> PlanKind:
        return self._service.get(f"/plans/{segment(name)}", _AnyPlan).kind

    def view_plan(self, name: str, kind: PlanKind = PlanKind.SWEEP) -> PlanView:
        return self._service.get(f"/plans/{segment(name)}", PlanView, {"kind": kind})

    def plan_files(self, request: PlanFilesRequest) -> Iterator[pa.RecordBatch]:
        query = {
            "kind": request.kind,
            "verdict": request.verdict,
            "reason": request.reason,
            "table": request.table,
            "path": request.path,
            "limit": request.limit,
        }
        path = f"/plans/{segment(request.plan)}/files"
        with self._service.stream(path, _ARROW, query) as stream:
            yield from pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))

    def expired_paths(self, name: str) -> Iterator[ExpiredPaths]:
        with self._service.stream(f"/plans/{segment(name)}/paths", _JSON_LINES) as stream:
            for line in stream.lines():
                yield self._service.decoded(line, ExpiredPaths)

    def explain_file(self, plan: str, path: str) -> FileExplanation:
        query = {"path": path, "kind": PlanKind.SWEEP}
        return self._service.get(f"/plans/{segment(plan)}/explain", FileExplanation, query)

    def explain_object(self, plan: str, path: str) -> ObjectExplanations:
        query = {"path": path, "kind": PlanKind.LIFECYCLE}
        return self._service.get(f"/plans/{segment(plan)}/explain", ObjectExplanations, query)

    def apply_plan(
        self,
        request: ApplyPlanRequest,
        confirm: Confirm[ApplyPreview],
        io: Interaction = SILENT_IO,
    ) -> ApplyPlanResult:
        view = self.view_plan(request.plan, request.kind)
        # Guards are checked by the service, before anything goes.
        confirm(preview_of(view, pending_of(view, request), request))
        body = arguments(
            kind=request.kind,
            quarantine=request.quarantine,
            hold=None if request.hold is None else format_duration(request.hold),
            bytes_at_once=request.bytes_at_once,
            engine=request.engine,
            override=request.overridden,
            dry_run=request.dry_run,
            **_rates(request.rate),
        )
        # The plan that was shown, even if there is a newer one by now.
        return self._jobs.result(f"/plans/{segment(view.plan)}:apply", body, ApplyPlanResult, io)

    def approve_plan(self, request: DecisionRequest) -> Decision:
        body = arguments(why=request.why, override=request.overridden)
        return self._service.send("POST", f"/plans/{segment(request.plan)}:approve", Decision, body)

    def reject_plan(self, request: DecisionRequest) -> Decision:
        check_reason(request)
        body = arguments(why=request.why)
        return self._service.send("POST", f"/plans/{segment(request.plan)}:reject", Decision, body)

    @contextmanager
    def check_lake(
        self, request: CheckLakeRequest, io: Interaction = SILENT_IO
    ) -> Iterator[CheckedLake]:
        """The result of a check, and all missing files as long as the service keeps them."""
        body = arguments(
            lake=request.lake, plan=request.plan, engine=request.engine, files=request.files
        )
        job = self._jobs.carry_out("/checks", body, io)
        if job.view.run is None or job.outcome.error is not None:
            raise failure_of(job.outcome)
        run = self.show_run(job.view.run)
        assert isinstance(run, RunView)
        documents = job.outcome.documents
        result = (
            _counted(run)
            if request.files
            else self._service.decoded(documents[-1], CheckLakeResult)
        )
        missing = _missing(documents) if request.files else iter(())
        counted = check_figures(run.figures)
        yield CheckedLake(result, counted.roots, counted.names, missing)

    def list_runs(self, wanted: RunFilter, limit: int) -> list[RunView]:
        query = {
            "lake": wanted.lake,
            "status": wanted.status,
            "since": wanted.since,
            "kind": wanted.kind,
        }
        found = pages(self._service, "/runs", _RunPage, query)
        return list(islice((run for page in found for run in page.runs), limit))

    def show_run(self, run: str) -> RunView | MaintenanceView:
        found = self._service.get(f"/runs/{segment(run)}", msgspec.Raw)
        is_of_store = self._service.decoded(found, _AnyRun).obj_stats is not msgspec.UNSET
        kind: type[RunView | MaintenanceView] = MaintenanceView if is_of_store else RunView
        return self._service.decoded(found, kind)

    def run_progress(self, run: str) -> RunProgressView | None:
        """How far a run is: the first that its events tell."""
        first = next(self._jobs.follow(run), None)
        return None if first is None else first.progress

    def follow_run(self, run: str) -> Iterator[RunEvent]:
        return self._jobs.follow(run)

    def cancel_run(self, run: str) -> CancelRequested:
        return self._service.send("POST", f"/runs/{segment(run)}:cancel", CancelRequested)

    def resume_run(self, run: str) -> JobView:
        return self._service.send("POST", f"/runs/{segment(run)}:resume", JobView)

    def run_output(self, run: str, after: int = 0, limit: int = _MOST_LINES) -> OutputPage:
        return whole_output(self._service, f"/runs/{segment(run)}/output", after, limit)

    def list_quarantines(self) -> QuarantineList:
        return self._quarantines()

    def _quarantines(self, **query: object) -> QuarantineList:
        found = pages(self._service, "/quarantine", _QuarantinePage, query)
        held: tuple[QuarantineView, ...] = tuple(each for page in found for each in page.held)
        return QuarantineList(held)

    def ended_holds(self) -> tuple[str, ...]:
        """The plans whose hold has ended by the clock of the service, oldest first."""
        return tuple(each.plan for each in reversed(self._quarantines(ended=True).held))

    def restore_quarantine(
        self,
        plan: str,
        paths: tuple[str, ...] = (),
        *,
        prefix: str | None = None,
        table: str | None = None,
    ) -> RestoreResult:
        path = f"/quarantine/{segment(plan)}:restore"
        body = arguments(paths=paths, prefix=prefix, table=table)
        return self._jobs.result(path, body, RestoreResult, SILENT_IO)

    def empty_quarantine(
        self,
        request: EmptyQuarantineRequest,
        confirm: Confirm[QuarantineView],
        io: Interaction = SILENT_IO,
    ) -> EmptyResult | EmptyDryRun:
        confirm(self._held(request.plan))
        body = arguments(
            engine=request.engine, override=request.overridden, dry_run=request.dry_run
        )
        kind: type[EmptyResult | EmptyDryRun] = EmptyDryRun if request.dry_run else EmptyResult
        return self._jobs.result(f"/quarantine/{segment(request.plan)}:empty", body, kind, io)

    def _held(self, name: str) -> QuarantineView:
        """What a plan has in quarantine, by its name or that of a run that applied it."""
        for each in self.list_quarantines().held:
            if name in (each.plan, *each.runs):
                return each
        raise NotFoundError(f"nothing of {name} is in quarantine", hint="lakesweep quarantine list")


def whole_output(service: ServiceConnection, path: str, after: int, limit: int) -> OutputPage:
    """The lines of a run or a job from number `after` on, however many pages that takes."""
    first: OutputPage | None = None
    lines: list[str] = []
    while True:
        query = {"after": after, "limit": min(limit - len(lines), _MOST_LINES)}
        page = service.get(path, OutputPage, query)
        first = first or page
        lines += page.lines
        if page.next == after or len(lines) >= limit or not page.lines:
            return OutputPage(
                first=first.first, next=page.next, dropped=page.dropped, lines=tuple(lines)
            )
        after = page.next


def _rates(rate: DeleteRate) -> dict[str, object]:
    return {
        "files_per_second": rate.files_per_second,
        "batches_per_second": rate.batches_per_second,
        "batch_size": rate.batch_size,
    }


def _policy(request: PlanRepositoryRequest) -> dict[str, object]:
    """A policy goes with the request: the service has no such file."""
    return arguments(
        policy=request.policy.decode(errors="replace"),
        policy_file=PurePath(request.policy_file).name,
        mode=request.selection,
        floor=request.floor_days,
        branch_grace=format_duration(request.branch_grace),
        place=request.home,
        tags_protect_history=request.tags_protect_history,
        as_proposed=request.as_proposed,
        engine=request.engine,
        override=request.overridden,
    )


def _counted(run: RunView) -> CheckLakeResult:
    """The result of a check that listed its files, as far as its run counted."""
    figures = check_figures(run.figures)
    incomplete = figures.roots_incomplete
    return CheckLakeResult(
        lake=run.lake,
        run=run.run,
        missing=figures.missing,
        outside=figures.outside,
        roots=CheckedRoots(figures.roots - incomplete, incomplete),
        incomplete_roots=(IncompleteRoot("", ""),) * incomplete,
        tables=(),
        files=(),
        refused=figures.refused,
    )


def _missing(documents: Sequence[msgspec.Raw]) -> Iterator[pa.RecordBatch]:
    """The missing files that a check listed."""
    if documents:
        rows = [msgspec.json.decode(each) for each in documents]
        yield pa.RecordBatch.from_pylist(rows, schema=MISSING)
