"""The maintenance service: decide what to do, do it under a lease, and list earlier runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from msgspec.structs import replace

from lakesweep.clock import Clock, SystemClock, micros
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.engine import LocalEngine, MaintenanceEngine
from lakesweep.maintenance.live_filters import filter_sizes
from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec, spec_of
from lakesweep.maintenance.plugin_api import Plugin
from lakesweep.maintenance.plugins import load_plugins
from lakesweep.maintenance.row_scan import ScanLease
from lakesweep.maintenance.run import MaintenanceRun
from lakesweep.maintenance.run_records import MaintenanceRunInformation, MaintenanceRuns
from lakesweep.maintenance.run_tally import RunTally
from lakesweep.progress import SILENT, Progress
from lakesweep.progress_board import ProgressBoard
from lakesweep.redaction import masked
from lakesweep.runs.leases import HeldLease, take_lease
from lakesweep.runs.live_records import LiveLinks, LiveTeller, new_links
from lakesweep.runs.records import RunStatus, new_name
from lakesweep.runs.sessions import cancelled_status, holder_name, recorded, status_after, telling
from lakesweep.store import Store
from lakesweep.store.realms.purge import StateCheck
from lakesweep.units import format_count

_KIND = "maintain"
#: The checkpoints of a run that ended longer ago are not used.
_RESUMABLE = timedelta(days=1)
_UNFINISHED = frozenset({RunStatus.DEAD, RunStatus.FAILED, RunStatus.STOPPED, RunStatus.CANCELLED})


@dataclass(frozen=True)
class MaintenanceService:
    """Keeps the database of a store small.

    The store must know the types of `records.TYPES`. Rows of types that it does not know are left
    alone.
    """

    store: Store
    config: MaintenanceConfig = field(default_factory=MaintenanceConfig)
    clock: Clock = field(default_factory=SystemClock)
    progress: Progress = SILENT
    plugins: Sequence[Plugin] = field(default_factory=load_plugins)
    engine: MaintenanceEngine | None = None
    #: What this process does and says, if runs tell the store how far they are.
    board: ProgressBoard | None = None
    job: str | None = None
    announce: Callable[[str], None] | None = None

    def build_spec(self) -> MaintenanceRunSpec:
        """All active and inactive realms to process, and all to purge whose state says so."""
        return spec_of(self.store.realms.list())

    def run_log(self) -> Sequence[MaintenanceRunInformation]:
        """The newest runs, newest first."""
        return list(self._runs.list())

    def perform(
        self, spec: MaintenanceRunSpec, *, supersede: str | None = None, dry_run: bool = False
    ) -> MaintenanceRunInformation:
        """Run maintenance. LeaseHeldError while another run holds the lease.

        If something could not be done, the result says so and its status is `incomplete`. A dead
        run is taken over, and one named by `supersede` at once; it stops as soon as it notices. A
        dry run needs no lease and leaves no record.
        """
        self.config.check()
        spec.check()
        name = new_name(_KIND, self.clock)
        if dry_run:
            return self._dry_run(name, spec)
        subject = (self.store.system, self.clock, "the store")
        lease = take_lease(*subject, self._runs.lease(), name, holder_name(), superseded=supersede)
        return self._recorded_run(name, spec, lease)

    @property
    def _runs(self) -> MaintenanceRuns:
        return MaintenanceRuns(self.store.system, self.clock, self.config.retained_runs)

    def _dry_run(self, name: str, spec: MaintenanceRunSpec) -> MaintenanceRunInformation:
        begun = self._begun(name, is_dry_run=True)
        tally = RunTally(begun, self.clock, lambda _: None)
        self._run(tally, spec, lambda: None, None).go()
        return _end(tally)

    def _recorded_run(
        self, name: str, spec: MaintenanceRunSpec, lease: HeldLease
    ) -> MaintenanceRunInformation:
        links = None if self.board is None else new_links(self.store.system, name, self.clock)
        recorder = _StoreRunRecorder(self._runs, lambda: self._start(name, lease, links))
        with (
            recorded(lease, recorder) as tally,
            telling(self.store.system, self.clock, self.board, links) as recorder.teller,
        ):
            fence = ScanLease(lease.stored.id, lease.token)
            self._run(tally, spec, self._watched(lease), fence).go()
        return tally.result

    def _start(self, name: str, lease: HeldLease, links: LiveLinks | None) -> RunTally:
        begun = self._resumed(self._begun(name, token=lease.token))
        begun = replace(begun, job=self.job, live=links)
        if self.announce is not None:
            self.announce(name)
        return RunTally(begun, self.clock, self._runs.put)

    def _watched(self, lease: HeldLease) -> Callable[[], None]:
        """Raises LeaseHeldError as soon as the lease has ended, or moments after it is lost."""
        watch = StateCheck(self.clock, lease.verify)

        def look() -> None:
            lease.check()
            watch.refresh()

        return look

    def _begun(
        self, name: str, *, token: int = 0, is_dry_run: bool = False
    ) -> MaintenanceRunInformation:
        now = self.clock.now()
        return MaintenanceRunInformation(
            run=name,
            token=token,
            started_at=micros(now),
            cut_off_at=micros(now - self.config.grace),
            is_dry_run=is_dry_run,
        )

    def _resumed(self, begun: MaintenanceRunInformation) -> MaintenanceRunInformation:
        """The run, with what the last one had done if that did not come to its end."""
        before = next(self._runs.list(), None)
        if before is None or before.status not in _UNFINISHED or not before.remaining:
            return begun
        if begun.started - before.started > _RESUMABLE:
            return begun
        if before.filters is None or not self.config.filter_policy.accepts(
            before.filters.worst_fpp
        ):
            return begun  # it deleted nothing of what it scanned
        return _taken_over(begun, before)

    def _run(
        self,
        tally: RunTally,
        spec: MaintenanceRunSpec,
        look: Callable[[], None],
        fence: ScanLease | None,
    ) -> MaintenanceRun:
        return MaintenanceRun(
            store=self.store,
            config=self.config,
            plugins=self.plugins,
            engine=self.engine or LocalEngine(self.config.scan_workers),
            clock=self.clock,
            progress=self.progress,
            spec=spec,
            sizes=filter_sizes(self.config, self._runs.list()),
            started=tally.now().started,
            tally=tally,
            look=look,
            fence=fence,
            is_dry_run=tally.now().is_dry_run,
        )


@dataclass(slots=True)
class _StoreRunRecorder:
    """Records a maintenance run."""

    runs: MaintenanceRuns
    start: Callable[[], RunTally]
    teller: LiveTeller | None = None

    def bury(self, run: str) -> None:
        self.runs.bury(run)

    def begin(self) -> RunTally:
        tally = self.start()
        self.runs.put(tally.now())
        return tally

    def finish(self, run: RunTally, error: BaseException | None) -> None:
        if error is None:
            self.runs.put(_end(run))
        else:
            details = masked("".join(traceback.format_exception(error)))
            status, why = cancelled_status(status_after(error), self.teller)
            self.runs.put(run.finish(status, why or masked(str(error)), details))


def _end(tally: RunTally) -> MaintenanceRunInformation:
    failed = tally.failed
    problems = [*tally.problems, *([f"{format_count(failed, 'delete')} failed"] if failed else [])]
    status = RunStatus.INCOMPLETE if problems else RunStatus.DONE
    return tally.finish(status, problems[0] if problems else "", "\n".join(problems))


def _taken_over(
    begun: MaintenanceRunInformation, before: MaintenanceRunInformation
) -> MaintenanceRunInformation:
    """The run, resuming where another one ended."""
    scanned = before.per_realm_per_obj_type_stats
    return replace(
        begun,
        resumes=before.run,
        remaining=before.remaining,
        per_realm_per_obj_type_stats={realm: scanned.get(realm, {}) for realm in before.remaining},
    )
