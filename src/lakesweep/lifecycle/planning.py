"""Making a plan by a policy: list, read, judge, look again, write down. Nothing is deleted here.

The order is the law, as in a sweep. What is stored is listed first. What is staged is read before
the commits, for a commit moves the one to the other. When the policy has judged, everything is
looked at again: what came meanwhile stays. The plan is one of the sweep's, of a lake that is the
repository: guards, lease, hash, outcomes and quarantine are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from lakesweep.clock import Clock
from lakesweep.errors import IncompleteError, LakesweepError, MissingError
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.dump_ages import (
    find_ages,
)
from lakesweep.lakefs.repository import StagingUnknownError
from lakesweep.lakefs.temporary import without_temporary
from lakesweep.lifecycle.draft import PlanDraft
from lakesweep.lifecycle.heads import Heads, Held
from lakesweep.lifecycle.insight import ref_sizes
from lakesweep.lifecycle.job import check_staging, find_addresses
from lakesweep.lifecycle.lakes import refuse_nested, refuse_shared
from lakesweep.lifecycle.pairing import pair_verdicts
from lakesweep.lifecycle.refs_file import write_refs
from lakesweep.lifecycle.spec import Found, Spec
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets import Dataset, write_dataset
from lakesweep.store.moments import moment
from lakesweep.sweep.clocks import ahead_of_dataset
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import mark
from lakesweep.sweep.marks import Marks
from lakesweep.sweep.plans import (
    PlanDocument,
    dataset_ref,
    incomplete_roots,
)
from lakesweep.sweep.pruning import Pruner
from lakesweep.sweep.records import LakeRecord, RunKind
from lakesweep.sweep.ruling import make_ruling
from lakesweep.sweep.runs import Runs, new_name
from lakesweep.sweep.stored_plan import publish_plan
from lakesweep.sweep.surveying import Surveyor, files_of
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.lakefs.refs import Refs
    from lakesweep.lifecycle.engine import LifecycleEngine
    from lakesweep.lifecycle.order import LifecycleOrder
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.formats import Foreign
    from lakesweep.sweep.judging import Rules
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.leases import HeldLease
    from lakesweep.sweep.roots import RootSource


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
        others += order.siblings.values()
        refuse_shared(repository.name, repository.namespace, others)
        ages = find_ages(order.openers)  # what is written from now on is seen when looking again
        self._refuse_unknown(order.spec)
        name = order.spec.run_id or new_name("plan", self.clock)
        address = f"{lake.plans}/{name}"
        surveyor = Surveyor(self.stores, self.engine, self.clock, self.progress, self.seconds)
        with surveyor.phase("list"):
            listing, foreign = self._list(surveyor, lake, f"{address}/listing")
        refuse_nested(repository.name, foreign)
        lease.check()
        with surveyor.phase("mark"):
            found, refs = self._find(order, name, address, started)
            lease.check()
            sources = order.sources(refs, ages)(self.stores, lake, files_of(self.stores, listing))
            cache = surveyor.earlier(self.runs.lake(lake.name))
            marks = self._look_again(sources, cache, f"{address}/marks")
        lease.check()
        with surveyor.phase("judge"):
            rules = self._rules(order, marks, started)
            judged = pair_verdicts(
                self.stores, self.engine, listing, found.verdicts, marks, rules, address
            )
        draft = PlanDraft(
            order, name, started, self.engine.name, ages, listing, found, marks, judged
        )
        ahead = ahead_of_dataset(self.stores, listing, started)
        document = draft.document(self.runs.lake(lake.name), self.clock.now(), ahead)
        sizes = ref_sizes(self.stores, found.segments, refs, started)
        held = self._held(order.spec, refs, judged.datasets[Verdict.DELETE.value], address)
        details = {"refs": sizes, "heads": None if held is None else held.figures}
        document = msgspec.structs.replace(document, details={**document.details, **details})
        stored = {
            "refs": write_refs(self.stores, f"{address}/refs", refs),
            "listing": listing,
            **judged.datasets,
        }
        datasets = {name: dataset_ref(name, dataset) for name, dataset in stored.items()} | {
            name: dataset_ref(f"marks/{name}", dataset) for name, dataset in marks.datasets.items()
        }
        if held is not None:
            datasets["heads"] = dataset_ref("heads/entries", held.entries)
        document = msgspec.structs.replace(document, datasets=datasets, seconds=dict(self.seconds))
        lease.check()
        publish_plan(self.stores, self.runs, address, document, lease.token)
        self._learn(lake.name, document, marks)
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
        refs = without_temporary(spec.repository.read_refs())
        return find_addresses(spec, self.judges, refs, staged), refs

    def _held(self, spec: Spec, refs: Refs, deletes: Dataset, address: str) -> Held | None:
        """What HEADs hold of what goes; None where it is not taken off them first."""
        if spec.repository.editor is None or not spec.policy.head_rules:
            return None
        heads = Heads(spec.repository, refs)
        return heads.held(self.stores, self.engine, spec.policy, deletes, f"{address}/heads")

    def _restored(self, lake: str) -> datetime | None:
        """When objects last came back from quarantine."""
        restores = (run for run in self.runs.list(lake) if run.kind is RunKind.RESTORE)
        return next((moment(run.started_at) for run in restores), None)

    def _staged(self, spec: Spec, address: str) -> Dataset | None:
        """What is staged; None where that cannot be known, which is for the policy to judge."""
        try:
            return write_dataset(self.stores, address, STAGED, spec.repository.staged())
        except StagingUnknownError:
            return None

    def _look_again(
        self, sources: Sequence[RootSource], cache: Marks | None, address: str
    ) -> Marks:
        """What is needed that the policy did not see: by what came meanwhile, and by others."""
        marks = mark(MarkSpec(self.engine, self.stores, address, cache=cache), sources)
        for root in incomplete_roots(marks):
            raise IncompleteError(
                f"{root.name} could not be read, and may reference objects of the repository, so"
                f" no plan was made: {root.reason}",
                hint="mend it, then plan again; or, if it can reference no object of this"
                " repository, leave that root out of the configuration meanwhile",
            )
        return marks

    def _rules(self, order: LifecycleOrder, marks: Marks, started: datetime) -> Rules:
        now = max(self.clock.now(), started)
        return make_ruling(
            order.lake, marks, {}, order.overridden, now=now, cutoff=order.cutoff(started)
        ).rules

    def _learn(self, lake: str, document: PlanDocument, marks: Marks) -> None:
        def change(record: LakeRecord) -> LakeRecord:
            return msgspec.structs.replace(
                record,
                live=document.amount(Verdict.KEEP.value).files,
                marks=marks.address,
                mark_hashes={name: each.sha256 for name, each in marks.datasets.items()},
            )

        self.runs.learn(lake, change)
