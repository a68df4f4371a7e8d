"""Make a lifecycle plan: list, read, judge, recheck, write. Nothing is deleted here.

The order matters, as in a sweep. Objects are listed first. Staged entries are read before the
commits, because a commit moves entries from the one to the other. After judging, everything is
checked again, and what arrived meanwhile is kept. The plan is a sweep plan for the lake that
stands for the repository: guards, lease, hash, outcomes and quarantine are the same.

The table of the addresses that a plan deletes, with all their paths and rules, is
written when everything is known: an address that a policy expires may not be stored any
more, or be kept because something else references it. Tasks write into the folder of the plan,
where attempts that failed may leave files. Only the committed ones are copied to the table of all
runs, because its readers take every file that they find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.clock import Clock, moment
from lakesweep.errors import IncompleteError, MissingError
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.refs.commit_graph import without_temporary
from lakesweep.lakefs.repository.interface import StagingUnknownError, find_ages
from lakesweep.lifecycle.columns import ADDRESSES
from lakesweep.lifecycle.judge.pipeline import (
    JudgedAddresses,
    LifecycleSpec,
    judge_addresses,
    require_staging,
)
from lakesweep.lifecycle.plan.document import PlanDraft, write_refs
from lakesweep.lifecycle.plan.head_entries import BranchHeads, HeadEntries
from lakesweep.lifecycle.plan.object_verdicts import ReferenceSplitStep, judge_objects
from lakesweep.lifecycle.plan.savings import ref_sizes
from lakesweep.lifecycle.repository_lake import refuse_nested, refuse_shared
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.records import LakeRecord, RunKind, new_name
from lakesweep.runs.restore_marks import read_restore_marks
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part, sha256_of
from lakesweep.storage.datasets.writer import (
    DatasetWriter,
    commit_dataset,
    new_part_name,
    write_dataset,
)
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.guards import dataset_clock_skew
from lakesweep.sweep.judge.rules import make_rules
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.mark.survey import Surveyor, files_of
from lakesweep.sweep.plan.document import PlanDocument, dataset_ref, incomplete_roots
from lakesweep.sweep.plan.publication import PlanPublisher, plan_datasets
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.lakefs.refs.commit_graph import Refs
    from lakesweep.lifecycle.judge.engine import LifecycleEngine
    from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
    from lakesweep.runs.leases import HeldLease
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.judge.reasons import JudgeRules
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.paths.foreign_formats import ForeignFolder
    from lakesweep.sweep.roots.root import RootSource


@dataclass
class LifecyclePlanner:
    """Makes plans from policies. Everything that touches objects runs on the engines."""

    stores: Stores
    engine: SweepEngine
    judges: LifecycleEngine
    runs: RunLog
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)

    def plan(
        self, order: LifecyclePlanRequest, started: datetime, lease: HeldLease
    ) -> PlanDocument:
        """Write a plan. `started` was read before the lease was taken."""
        lake, repository = order.lake, order.spec.repository
        others = [opener().namespace for opener in order.neighbours.values()]
        others += order.siblings.values()
        refuse_shared(repository.name, repository.namespace, others)
        ages = find_ages(order.openers)  # anything written from now on is seen by the recheck
        self._refuse_unknown(order.spec)
        name = order.spec.run_id or new_name("plan", self.clock)
        address = f"{lake.plans}/{name}"
        surveyor = Surveyor(self.stores, self.engine, self.clock, self.progress, self.seconds)
        restores = read_restore_marks(self.stores, lake.name, lake.locations)
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
            judged = judge_objects(
                self.stores, self.engine, listing, found.verdicts, marks, rules, address
            )
        draft = PlanDraft(
            order, name, started, self.engine.name, ages, listing, found, marks, judged
        )
        ahead = dataset_clock_skew(self.stores, listing, started)
        document = draft.document(self.runs.lake(lake.name), self.clock.now(), ahead)
        sizes = ref_sizes(self.stores, found.segments, refs, started)
        deletes = judged.datasets[Verdict.DELETE.value]
        held = self._held(order.spec, refs, deletes, address)
        table = AddressTable(self.stores, self.engine, name, address)
        addresses = table.write(found.results, deletes, None if held is None else held.entries)
        details = draft.details(sizes, None if held is None else held.totals)
        document = msgspec.structs.replace(
            document,
            details=msgspec.to_builtins(details),
            restores=restores,
            inner_homes=judged.homes,
        )
        stored = {
            "refs": write_refs(self.stores, f"{address}/refs", refs),
            "listing": listing,
            "addresses": addresses,
            **judged.datasets,
        }
        datasets = plan_datasets(stored, marks)
        if held is not None:
            datasets["heads"] = dataset_ref("heads/entries", held.entries)
        document = msgspec.structs.replace(document, datasets=datasets, seconds=dict(self.seconds))
        lease.check()
        publish_table(self.stores, addresses, details.results)
        PlanPublisher(self.stores, self.runs, self.clock, lake, lease).publish(
            address, document, lambda: self._learn(lake.name, document, marks)
        )
        return document

    def _refuse_unknown(self, spec: LifecycleSpec) -> None:
        """Refuse early, before all objects are listed."""
        try:
            spec.repository.staged()
        except StagingUnknownError:
            require_staging(spec)

    def _list(
        self, surveyor: Surveyor, lake: Lake, address: str
    ) -> tuple[Dataset, Sequence[ForeignFolder]]:
        """All objects; none if nothing was ever uploaded."""
        try:
            return surveyor.list_files(lake, address)
        except MissingError:
            return write_dataset(self.stores, address, LISTING, []), ()

    def _find(
        self, order: LifecyclePlanRequest, name: str, address: str, started: datetime
    ) -> tuple[JudgedAddresses, Refs]:
        """The verdicts of the policy on all addresses, and the refs that it judged."""
        spec = replace(
            order.spec,
            run_id=name,
            now=started,
            folder=f"{address}/run",
            restored=self._restored(order.lake.name),
        )
        staged = self._staged(spec, f"{address}/staged")
        # After the staged entries: what is committed meanwhile was staged, or is seen as a commit.
        refs = without_temporary(spec.repository.read_refs())
        return judge_addresses(spec, self.judges, refs, staged), refs

    def _held(
        self, spec: LifecycleSpec, refs: Refs, deletes: Dataset, address: str
    ) -> HeadEntries | None:
        """What HEADs hold of expiring objects; None if it is not removed from them first."""
        if spec.as_proposed or spec.repository.editor is None or not spec.policy.head_rules:
            return None
        heads = BranchHeads(spec.repository, refs)
        return heads.held(self.stores, self.engine, spec.policy, deletes, f"{address}/heads")

    def _restored(self, lake: str) -> datetime | None:
        """When objects last came back from quarantine."""
        restores = (run for run in self.runs.list(lake) if run.kind is RunKind.RESTORE)
        return next((moment(run.started_at) for run in restores), None)

    def _staged(self, spec: LifecycleSpec, address: str) -> Dataset | None:
        """The staged entries; None if they cannot be known, which the policy then decides on."""
        try:
            return write_dataset(self.stores, address, STAGED, spec.repository.staged())
        except StagingUnknownError:
            return None

    def _look_again(
        self, sources: Sequence[RootSource], cache: Marks | None, address: str
    ) -> Marks:
        """Mark what the policy did not see: concurrent changes, and what others reference."""
        marks = mark(MarkSpec(self.engine, self.stores, address, cache=cache), sources)
        for root in incomplete_roots(marks):
            raise IncompleteError(
                f"{root.name} could not be read and may reference objects of the repository, so"
                f" no plan was made: {root.reason}",
                hint="fix the problem, then plan again; or, if that root cannot reference objects"
                " of this repository, remove it from the configuration for now",
            )
        return marks

    def _rules(self, order: LifecyclePlanRequest, marks: Marks, started: datetime) -> JudgeRules:
        now = max(self.clock.now(), started)
        return make_rules(
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


@dataclass(frozen=True)
class AddressTableStep:
    """Writes the expired addresses (EXPIRED) that have a `path` to delete, as ADDRESSES."""

    stores: Stores
    address: str
    run_id: str
    waits_for_heads: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, ADDRESSES)
        for batch in batches:
            found = pa.Table.from_batches([batch.filter(pc.is_valid(batch["path"]))])
            run_ids = pa.repeat(pa.scalar(self.run_id, pa.string()), found.num_rows)
            waits = pa.repeat(pa.scalar(self.waits_for_heads), found.num_rows)
            rows = found.append_column("run_id", run_ids).append_column("waits_for_heads", waits)
            for each in rows.to_batches():
                writer.add(each)
        yield task_result("addresses", writer.finish())


@dataclass(frozen=True)
class AddressTable:
    """Writes the table of a plan. `run_id` is the name of the plan, `folder` that of its files."""

    stores: Stores
    engine: SweepEngine
    run_id: str
    folder: str

    def write(self, expired: Dataset, deletes: Dataset, held: Dataset | None) -> Dataset:
        """The expired addresses whose objects are deleted (VERDICTS); `held` are on HEADs."""
        waiting, free = (None, deletes) if held is None else self._split(deletes, held)
        parts = self._choose(expired, free, waits_for_heads=False)
        if waiting is not None:
            parts += self._choose(expired, waiting, waits_for_heads=True)
        remove_folder(self.stores, f"{self.folder}/waiting")
        return commit_dataset(self.stores, self._address, parts, ADDRESSES)

    @property
    def _address(self) -> str:
        return f"{self.folder}/addresses"

    def _split(self, deletes: Dataset, held: Dataset) -> tuple[Dataset, Dataset]:
        folder = f"{self.folder}/waiting"
        step = ReferenceSplitStep(self.stores, f"{folder}/taken", f"{folder}/free")
        answers = self.engine.match(step, deletes, held, TASK_RESULTS)
        taken, free = (
            commit_dataset(
                self.stores, f"{folder}/{name}", results_of(answers, name, Part), LISTING
            )
            for name in ("taken", "free")
        )
        return taken, free

    def _choose(self, expired: Dataset, files: Dataset, *, waits_for_heads: bool) -> list[Part]:
        step = AddressTableStep(self.stores, self._address, self.run_id, waits_for_heads)
        answers = self.engine.pair(step, expired, files, ["path"], TASK_RESULTS)
        return list(results_of(answers, "addresses", Part))


def publish_table(stores: Stores, table: Dataset, address: str) -> None:
    """Copy a dataset to where plain readers find it; an empty one has an empty file."""
    source, target = parse(table.address), parse(address)
    store = stores.open(target)
    parts = list(table.parts)
    for part in parts:
        if source.store_id == target.store_id:
            store.copy(source.key + part.name, target.key + part.name)
        else:
            data = stores.open(source).read(source.key + part.name)
            store.write(target.key + part.name, data)
    if not parts:
        data = _empty_file(table.schema)
        parts.append(Part(new_part_name(), 0, len(data), sha256_of(data)))
        store.write(target.key + parts[0].name, data)
    commit_dataset(stores, address, parts, table.schema)


def _empty_file(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
