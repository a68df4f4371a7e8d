"""Plans and checks of tests, made in this process, with their records in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from lakesweep.clock import Clock, ManualClock
from lakesweep.config import LakeSection
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.records import TYPES, RunKind
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import run_session
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval
from lakesweep.sweep.apply.report import ApplyResult
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.inspect.check import CheckResult, LakeChecker
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.survey import LakeSurvey, Surveyor
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.roots.root import RootSource
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources

_numbers = count()
WEEK = timedelta(days=7)
#: What guards say of lakes as small and new as these.
SMALL = ("first-run", "zero-live", "share", "live-fell")


def in_a_month() -> ManualClock:
    """A clock by which everything that was written today is old."""
    return ManualClock(datetime.now(UTC) + timedelta(days=30))


#: The clock of a desk is ahead, so that all files are old.
_OVERRIDDEN = (*SMALL, "clock")


@dataclass
class Desk:
    """A lake, and whoever plans and checks it. `roots` stand in for those of the section."""

    stores: Stores
    section: LakeSection
    roots: Sequence[RootSource] | None = None
    clock: Clock = field(default_factory=in_a_month)
    plans: str = field(default_factory=lambda: f"memory://plans-{next(_numbers)}/prod")
    progress: Progress = SILENT
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        store = Store(MemoryBackend(), types=TYPES, clock=self.clock)
        self.runs = RunLog(store.create_realm("acme"), self.clock)

    @property
    def lake(self) -> Lake:
        return Lake("prod", self.section, self.plans, self.neighbours)

    def plan(
        self, engine: SweepEngine | None = None, *, grace: timedelta = WEEK, **order: Any
    ) -> StoredPlan:
        with run_session(self.runs, "prod", RunKind.PLAN, spec={}) as session:
            planner = Planner(
                self.stores,
                self._engine(engine),
                self.runs,
                self.clock,
                self.progress,
                sources=self._sources,
            )
            wanted = PlanRequest(self.lake, grace, **order)
            document = planner.plan(wanted, session.started, session.lease)
        return open_plan(self.stores, self.runs, document.plan)

    def apply(
        self,
        plan: StoredPlan,
        engine: SweepEngine | None = None,
        *,
        look_every: timedelta = WEEK,
        batch_rows: int = 100,
    ) -> ApplyResult:
        """Delete what a plan says, whatever guards of small lakes say."""
        order = ApplyRequest(
            plan.record,
            self.lake,
            DeleteRemoval(),
            OUTCOME_SCHEMA,
            DeleteRate(),
            _OVERRIDDEN,
            batch_rows,
        )
        document = load_applicable_plan(self.stores, self.runs, order, self.clock.now())
        spec: dict[str, Any] = {}
        with run_session(
            self.runs, "prod", RunKind.APPLY, plan=document.plan, spec=spec
        ) as session:
            applier = Applier(
                self.stores,
                self._engine(engine),
                self.runs,
                self.clock,
                sources=self._sources,
                look_every=look_every,
            )
            return applier.apply(order, document, session)

    def survey(self, engine: SweepEngine | None = None) -> LakeSurvey:
        with run_session(self.runs, "prod", RunKind.CHECK, spec={}) as session:
            surveyor = Surveyor(
                self.stores, self._engine(engine), self.clock, sources=self._sources
            )
            address = f"{self.plans}/survey-{next(_numbers)}"
            record = self.runs.lake("prod")
            return surveyor.survey(self.lake, record, address, session.lease)

    def check(self, survey: LakeSurvey, engine: SweepEngine | None = None) -> CheckResult:
        checker = LakeChecker(self.stores, self._engine(engine), self._sources)
        return checker.check(self.lake, survey, f"{self.plans}/check-{next(_numbers)}")

    def rows(self, dataset: Dataset) -> list[dict[str, Any]]:
        batches = read_dataset(self.stores, dataset)
        return [row for batch in batches for row in batch.to_pylist()]

    def _engine(self, engine: SweepEngine | None) -> SweepEngine:
        return engine or LocalSweepEngine(self.stores)

    @property
    def _sources(self) -> RootSourceFactory:
        given = self.roots
        return root_sources if given is None else lambda *_: given


def rows_of(plan: StoredPlan, **chosen: Any) -> list[dict[str, Any]]:
    """The rows of a plan."""
    return [row for batch in plan.rows(**chosen) for row in batch.to_pylist()]


def reasons(plan: StoredPlan) -> dict[str, str]:
    """The reason for each file."""
    return {row["path"]: row["reason"] for row in rows_of(plan)}


def deletes(plan: StoredPlan) -> set[str]:
    """The files that a plan would delete."""
    return {row["path"] for row in rows_of(plan) if row["verdict"] == "delete"}
