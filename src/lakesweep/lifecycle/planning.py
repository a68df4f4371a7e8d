"""Making a plan by a policy: list, read, judge, look again, write down. Nothing is deleted here.

The order is the law, as in a sweep. What is stored is listed first. What is staged is read before
the commits, for a commit moves the one to the other. When the policy has judged, everything is
looked at again: what came meanwhile stays. The plan is one of the sweep's, of a lake that is the
repository: guards, lease, hash, outcomes and quarantine are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import IncompleteError, LakesweepError, MissingError
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.repository import StagingUnknownError
from lakesweep.lifecycle.dump_ages import (
    Ages,
    describe_ages,
    describe_stale,
    find_ages,
    store_ages,
)
from lakesweep.lifecycle.insight import SAVED, ref_sizes, savings
from lakesweep.lifecycle.job import check_staging, find_addresses
from lakesweep.lifecycle.lakes import refuse_nested, refuse_shared
from lakesweep.lifecycle.plan_steps import SAID, SortStep, VerdictStep
from lakesweep.lifecycle.refs_file import write_refs
from lakesweep.lifecycle.rereading import Changes, PlanSources
from lakesweep.lifecycle.spec import Found, Spec
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import parse
from lakesweep.storage.datasets import Dataset, Part, commit_dataset, write_dataset
from lakesweep.store.moments import moment
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.guards import Figures, look
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import mark
from lakesweep.sweep.marks import Marks, RootState
from lakesweep.sweep.planning import LIFE
from lakesweep.sweep.plans import (
    Amount,
    PlanDocument,
    PlanKind,
    RootCounts,
    dataset_ref,
    incomplete_roots,
)
from lakesweep.sweep.pruning import Pruner
from lakesweep.sweep.records import LakeRecord, RunKind
from lakesweep.sweep.ruling import make_ruling
from lakesweep.sweep.runs import Runs, new_name
from lakesweep.sweep.stored_plan import publish_plan
from lakesweep.sweep.surveying import Surveyor, files_of
from lakesweep.sweep.tidying import remove_folder
from lakesweep.sweep.totals import (
    TOTALS,
    Dimension,
    classes_of,
    merge,
    reasons_of,
    shares_of,
)
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.lakefs.refs import Refs
    from lakesweep.lifecycle.engine import LifecycleEngine
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.formats import Foreign
    from lakesweep.sweep.judging import Rules
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.lakefs_roots import Opener
    from lakesweep.sweep.leases import HeldLease

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class LifecycleOrder:
    """What is asked of a plan. `spec` has no folder yet; `neighbours` may have imported objects."""

    lake: Lake
    spec: Spec
    opener: Opener
    neighbours: Mapping[str, Opener] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    policy_text: str = ""
    policy_name: str = "policy.json"

    @property
    def openers(self) -> Mapping[str, Opener]:
        """The repository and its neighbours."""
        return {self.spec.repository.name: self.opener, **self.neighbours}


@dataclass(frozen=True)
class _Judged:
    """The verdicts on all stored objects, and what was counted on the way."""

    datasets: Mapping[str, Dataset]
    totals: pa.Table
    saved: dict[str, Any]


@dataclass
class LifecyclePlanner:
    """Makes plans by policies. All parts that touch objects run on the engines."""

    stores: Stores
    engine: SweepEngine
    judges: LifecycleEngine
    runs: Runs
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)

    def plan(self, order: LifecycleOrder, started: datetime, lease: HeldLease) -> PlanDocument:
        """Write a plan. `started` was read before the lease was taken."""
        lake, repository = order.lake, order.spec.repository
        others = [opener().namespace for opener in order.neighbours.values()]
        refuse_shared(repository.name, repository.namespace, others)
        self._refuse_unknown(order.spec)
        name = order.spec.run_id or new_name("plan", self.clock)
        address = f"{lake.plans}/{name}"
        surveyor = Surveyor(self.stores, self.engine, self.clock, self.progress, self.seconds)
        ages = find_ages(order.openers)  # what is written from now on is seen when looking again
        with surveyor.phase("list"):
            listing, foreign = self._list(surveyor, lake, f"{address}/listing")
        refuse_nested(repository.name, foreign)
        lease.check()
        with surveyor.phase("mark"):
            found, refs = self._find(order, name, address, started)
            lease.check()
            marks = self._look_again(order, refs, ages, listing, address)
        lease.check()
        with surveyor.phase("judge"):
            rules = self._rules(order, marks, started)
            judged = self._judge(listing, found, marks, rules, address)
        document = self._describe(order, name, started, listing, found, marks, judged, ages)
        sizes = ref_sizes(self.stores, found.segments, refs, started)
        document = msgspec.structs.replace(document, details={**document.details, "refs": sizes})
        stored = {
            "refs": write_refs(self.stores, f"{address}/refs", refs),
            "listing": listing,
            **judged.datasets,
        }
        datasets = {name: dataset_ref(name, dataset) for name, dataset in stored.items()} | {
            name: dataset_ref(f"marks/{name}", dataset) for name, dataset in marks.datasets.items()
        }
        document = msgspec.structs.replace(document, datasets=datasets, seconds=dict(self.seconds))
        lease.check()
        publish_plan(self.stores, self.runs, address, document, lease.token)
        self._learn(lake.name, document)
        with suppress(LakesweepError):  # the plan is made; the next one tidies up
            lease.check()
            Pruner(self.stores, self.runs, lake, self.clock.now()).prune()
        return document

    def _refuse_unknown(self, spec: Spec) -> None:
        """What would be refused in the end is refused before all objects are listed."""
        try:
            spec.repository.staged()
        except StagingUnknownError:
            check_staging(spec)

    def _list(
        self, surveyor: Surveyor, lake: Lake, address: str
    ) -> tuple[Dataset, Sequence[Foreign]]:
        """All objects; none where nobody ever uploaded one."""
        try:
            return surveyor.list_files(lake, address)
        except MissingError:
            return write_dataset(self.stores, address, LISTING, []), ()

    def _find(
        self, order: LifecycleOrder, name: str, address: str, started: datetime
    ) -> tuple[Found, Refs]:
        """What the policy says of all addresses, and the refs that it was said of."""
        spec = replace(
            order.spec,
            run_id=name,
            now=started,
            folder=f"{address}/run",
            restored=self._restored(order.lake.name),
        )
        staged = self._staged(spec, f"{address}/staged")
        # Only now: what is committed meanwhile was staged, or is seen as a commit.
        refs = spec.repository.read_refs()
        return find_addresses(spec, self.judges, refs, staged), refs

    def _restored(self, lake: str) -> datetime | None:
        """When objects last came back from quarantine."""
        restores = (run for run in self.runs.list(lake) if run.kind is RunKind.RESTORE)
        return next((moment(run.started_at) for run in restores), None)

    def _clock_ahead(self, listing: Dataset, started: datetime) -> timedelta:
        """By how much our clock is ahead of the store's, by a file that was written since."""
        if not listing.parts:
            return timedelta()
        place = parse(listing.address + listing.parts[0].name)
        written = self.stores.open(place).head(place.key).modified
        return timedelta() if written is None else max(started - written, timedelta())

    def _staged(self, spec: Spec, address: str) -> Dataset | None:
        """What is staged; None where that cannot be known, which is for the policy to judge."""
        try:
            return write_dataset(self.stores, address, STAGED, spec.repository.staged())
        except StagingUnknownError:
            return None

    def _look_again(
        self, order: LifecycleOrder, refs: Refs, ages: Ages, listing: Dataset, address: str
    ) -> Marks:
        """What is needed that the policy did not see: by what came meanwhile, and by neighbours."""
        sources = sources_of(order, refs, ages)(
            self.stores, order.lake, files_of(self.stores, listing)
        )
        marks = mark(MarkSpec(self.engine, self.stores, f"{address}/marks"), sources)
        for root in incomplete_roots(marks):
            raise IncompleteError(
                f"{root.name} could not be read, so no plan was made: {root.reason}",
                hint="mend it, then plan again",
            )
        return marks

    def _rules(self, order: LifecycleOrder, marks: Marks, started: datetime) -> Rules:
        now = max(self.clock.now(), started)
        return make_ruling(
            order.lake, marks, {}, order.overridden, now=now, cutoff=_cutoff(order, started)
        ).rules

    def _judge(
        self, listing: Dataset, found: Found, marks: Marks, rules: Rules, address: str
    ) -> _Judged:
        taken, free = self._sort(listing, marks, f"{address}/sorted")
        answers = pa.concat_tables(
            self.engine.pair(
                VerdictStep(self.stores, f"{address}/keep", f"{address}/delete", rules, is_taken),
                files,
                found.verdicts,
                SAID,
                ANSWERS,
            )
            for files, is_taken in ((taken, True), (free, False))
        )
        datasets = {
            verdict.value: commit_dataset(
                self.stores,
                f"{address}/{verdict}",
                answers_of(answers, verdict.value, Part),
                VERDICTS,
            )
            for verdict in Verdict
        }
        remove_folder(self.stores, f"{address}/sorted")
        totals = pa.Table.from_pylist(
            list(answers_of(answers, "total", dict[str, Any])), schema=TOTALS
        )
        saved = savings(answers_of(answers, SAVED, dict[str, Any]))
        return _Judged(datasets, merge([totals]), saved)

    def _sort(self, listing: Dataset, marks: Marks, folder: str) -> tuple[Dataset, Dataset]:
        """What something needs that the policy did not see, and the rest."""
        step = SortStep(self.stores, f"{folder}/taken", f"{folder}/free")
        answers = self.engine.match(step, listing, marks.content, ANSWERS)
        taken, free = (
            commit_dataset(
                self.stores, f"{folder}/{name}", answers_of(answers, name, Part), LISTING
            )
            for name in ("taken", "free")
        )
        return taken, free

    def _describe(
        self,
        order: LifecycleOrder,
        name: str,
        started: datetime,
        listing: Dataset,
        found: Found,
        marks: Marks,
        judged: _Judged,
        ages: Ages,
    ) -> PlanDocument:
        record = self.runs.lake(order.lake.name)
        policy = order.spec.policy
        totals = _amounts(judged.totals)
        grace = _shortest(order)
        figures = Figures(
            was_applied=record.applied is not None,
            live=_files(totals, Verdict.KEEP),
            live_before=record.live,
            listed=listing.rows,
            deletes=_files(totals, Verdict.DELETE),
            grace=grace,
            shares=shares_of(judged.totals),
            is_policy_new=record.policy != policy.sha256,
            dumps=describe_ages(ages),
            stale_dumps=describe_stale(ages),
            clock_ahead=self._clock_ahead(listing, started),
        )
        return PlanDocument(
            plan=name,
            lake=order.lake.name,
            kind=PlanKind.LIFECYCLE,
            created=self.clock.now(),
            expires=started + LIFE,
            cut_off=_cutoff(order, started),
            grace_seconds=grace.total_seconds(),
            mode=order.spec.selection.value,
            roots=RootCounts(complete=len(list(marks.in_state(RootState.COMPLETE))), incomplete=0),
            totals=totals,
            ages=tuple(classes_of(judged.totals, Dimension.AGE)),
            sizes=tuple(classes_of(judged.totals, Dimension.SIZE)),
            guards=tuple(look(figures)),
            overridden=order.overridden,
            locations=order.lake.locations,
            spec={"engine": self.engine.name, "listed": listing.rows, **found.figures},
            policy=policy.sha256,
            details={**_details(order, found, judged), "dumps": store_ages(ages)},
        )

    def _learn(self, lake: str, document: PlanDocument) -> None:
        def change(record: LakeRecord) -> LakeRecord:
            return msgspec.structs.replace(record, live=_files(document.totals, Verdict.KEEP))

        self.runs.learn(lake, change)


def sources_of(order: LifecycleOrder, refs: Refs, ages: Ages) -> PlanSources:
    """Who is asked what came since a repository had these refs."""
    spec = order.spec
    changes = Changes(spec.policy, refs, spec.tags_protect_history)
    return PlanSources(
        spec.repository.name,
        order.opener,
        order.neighbours,
        changes,
        without_staging=spec.without_staging,
        ages=ages,
    )


def _details(order: LifecycleOrder, found: Found, judged: _Judged) -> dict[str, Any]:
    spec = order.spec
    return {
        "repository": spec.repository.name,
        "namespace": spec.repository.namespace.location,
        "aliases": list(spec.repository.namespace.aliases),
        "neighbours": list(order.neighbours),
        "home": spec.place,
        "policy": order.policy_text,
        "policy_name": order.policy_name,
        "words": list(found.words),
        "warnings": list(found.warnings),
        "full": found.full,
        "saved": judged.saved,
        "record": msgspec.to_builtins(found.record),
        "results": found.results.address,
        "tags_protect_history": spec.tags_protect_history,
        "without_staging": spec.without_staging,
    }


def _shortest(order: LifecycleOrder) -> timedelta:
    """The shortest time that any rule lets objects live."""
    days = [days for rule in order.spec.policy.rules for _, days in rule.all_days()]
    return min(days, default=0) * _DAY


def _cutoff(order: LifecycleOrder, started: datetime) -> datetime:
    """What was written since is too new for every rule: rules count whole days."""
    return started - _shortest(order)


def _amounts(totals: pa.Table) -> dict[str, dict[str, Amount]]:
    return {
        verdict: {reason: Amount(**amount) for reason, amount in reasons.items()}
        for verdict, reasons in reasons_of(totals).items()
    }


def _files(totals: Mapping[str, Mapping[str, Amount]], verdict: Verdict) -> int:
    return sum(amount.files for amount in totals.get(verdict.value, {}).values())
