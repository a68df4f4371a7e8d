"""Plans by policies over recorded repositories, made and carried out in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakesweep.clock import ManualClock
from lakesweep.config import Root
from lakesweep.lakefs.repository.interface import Repository, RepositoryOpener
from lakesweep.lifecycle.apply.applier import apply_lifecycle_plan, plan_sources
from lakesweep.lifecycle.judge.engine import LifecycleEngine
from lakesweep.lifecycle.judge.engine import LocalLifecycleEngine as LocalJudges
from lakesweep.lifecycle.judge.pipeline import LifecycleSpec
from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
from lakesweep.lifecycle.plan.planner import LifecyclePlanner
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.repository_lake import repository_lake
from lakesweep.lifecycle.run_history import VouchedDocuments
from lakesweep.runs.records import TYPES, RunKind
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import run_session
from lakesweep.storage.deleting.quarantine import QUARANTINE_SCHEMA
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval, QuarantineRemoval
from lakesweep.sweep.apply.report import ApplyResult
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.holdings import find_holding, quarantine_places
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.quarantine.emptying import EmptyingResult, QuarantineEmptier
from lakesweep.sweep.quarantine.restore import QuarantineRestorer
from tests.lakefs import AS_OF, RealRepositories
from tests.lakefs_recorded import RecordedRepository

#: What guards say of repositories as small and new as these.
SMALL = ("first-run", "share", "zero-live")


def recorded(repositories: RealRepositories, name: str, folder: Path) -> RecordedRepository:
    """A copy of a repository, whose objects have the times that they had in the store."""
    real = repositories.repository(name).copy_to(folder)
    for line in (real.oracle / "files.jsonl").read_text().splitlines():
        each = json.loads(line)
        if each["xid_time"]:
            os.utime(real.folder / each["path"], (each["xid_time"], each["xid_time"]))
    return RecordedRepository(real)


def opener_of(repository: RecordedRepository) -> RepositoryOpener:
    return partial(_itself, repository)


def _itself(repository: RecordedRepository) -> Repository:
    return repository


@dataclass
class Office:
    """A repository, and whoever makes and carries out plans for it."""

    repository: RecordedRepository
    neighbours: tuple[RecordedRepository, ...] = ()
    stores: Stores = field(default_factory=Stores)
    clock: ManualClock = field(default_factory=lambda: ManualClock(AS_OF))
    home: str | None = None
    #: Those of lakes beside the repository.
    roots: tuple[Root, ...] = ()

    def __post_init__(self) -> None:
        store = Store(MemoryBackend(), types=TYPES, clock=self.clock)
        self.runs = RunLog(store.create_realm("acme"), self.clock)
        self.engine: SweepEngine = LocalSweepEngine(self.stores)
        self.judges: LifecycleEngine = LocalJudges(self.stores)

    @property
    def lake(self) -> Lake:
        lake = repository_lake(self.repository.namespace, self.home)
        return replace(lake, roots_of_others=self.roots)

    @property
    def documents(self) -> VouchedDocuments:
        return VouchedDocuments(self.runs, self.lake.name)

    @property
    def openers(self) -> Mapping[str, RepositoryOpener]:
        return {each.name: opener_of(each) for each in (self.repository, *self.neighbours)}

    def plan(self, rules: Mapping[str, Mapping[str, Any]], **options: Any) -> StoredPlan:
        text = json.dumps({id_: {"enabled": True, **rule} for id_, rule in rules.items()})
        policy = parse_policy(text.encode(), "policy.json")
        planner = LifecyclePlanner(self.stores, self.engine, self.judges, self.runs, self.clock)
        with run_session(self.runs, self.lake.name, RunKind.PLAN, spec={}) as session:
            about = {"home": self.home, **options}
            spec = LifecycleSpec(
                self.repository,
                policy,
                session.record.run,
                session.started,
                "",
                self.documents,
                **about,
            )
            others = {each.name: opener_of(each) for each in self.neighbours}
            order = LifecyclePlanRequest(
                self.lake, spec, opener_of(self.repository), others, policy_text=text
            )
            document = planner.plan(order, session.started, session.lease)
        return open_plan(self.stores, self.runs, document.plan)

    def apply(
        self,
        plan: StoredPlan,
        *,
        overridden: tuple[str, ...] = SMALL,
        quarantine: bool = False,
        removal: Any = None,
        batch_rows: int = 4_000,
        at_once: bool = False,
    ) -> ApplyResult:
        record = self.runs.plan(plan.record.plan)
        order = ApplyRequest(
            record,
            self.lake,
            removal or (self._set_aside(record.plan) if quarantine else DeleteRemoval()),
            QUARANTINE_SCHEMA if quarantine else OUTCOME_SCHEMA,
            DeleteRate(),
            overridden,
            batch_rows,
        )
        document = load_applicable_plan(self.stores, self.runs, order, self.clock.now())
        spec = {"quarantine": quarantine, **order.removal.spec}
        with run_session(
            self.runs, self.lake.name, RunKind.APPLY, plan=record.plan, spec=spec
        ) as session:
            applier = Applier(
                self.stores,
                self.engine,
                self.runs,
                self.clock,
                sources=plan_sources(self.stores, record, document, self.openers),
                look_every=timedelta(seconds=0.05),
            )
            opener = opener_of(self.repository)
            return apply_lifecycle_plan(applier, order, document, session, opener, at_once=at_once)

    def _set_aside(self, plan: str) -> QuarantineRemoval:
        return QuarantineRemoval(quarantine_places(self.lake, plan))

    def keeper(self, plan: StoredPlan) -> tuple[QuarantineRestorer, Any]:
        holding = find_holding(self.runs, plan.document.plan)
        return QuarantineRestorer(self.stores, self.runs, self.lake), holding

    def empty(self, plan: StoredPlan) -> EmptyingResult:
        """End the hold of what a plan set aside."""
        record = self.runs.plan(plan.record.plan)
        releaser = QuarantineEmptier(
            self.stores,
            self.engine,
            self.runs,
            self.clock,
            sources=plan_sources(self.stores, record, plan.document, self.openers),
            look_every=timedelta(seconds=0.05),
        )
        with run_session(
            self.runs, self.lake.name, RunKind.EMPTY, plan=record.plan, spec={}
        ) as session:
            return releaser.release(self.lake, find_holding(self.runs, record.plan), session)

    def stored(self) -> set[str]:
        """The objects that are there, by their keys."""
        folder = self.repository.real.folder
        return {
            str(path.relative_to(folder)) for path in (folder / "data").rglob("*") if path.is_file()
        }


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Around:
    """Deletes as a run does, and does something before and behind each batch."""

    before: Callable[[], None] = nothing
    behind: Callable[[], None] = nothing

    @property
    def spec(self) -> dict[str, Any]:
        return {}

    def __call__(
        self, stores: Stores, batch: pa.RecordBatch, limiter: DeleteLimiter
    ) -> Iterator[pa.RecordBatch]:
        self.before()
        yield from DeleteRemoval()(stores, batch, limiter)
        self.behind()
