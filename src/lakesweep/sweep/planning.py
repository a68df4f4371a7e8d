"""Making a plan: list, mark, judge, write down.

The order is the law. The clock is read first, and a lease taken. The listing is complete and stored
before the first root is looked at: a file that becomes referenced while it is being listed is seen
to be referenced. Nothing is deleted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets import Dataset, Part, commit_dataset
from lakesweep.store.moments import micros, moment
from lakesweep.sweep.answers import answers_of
from lakesweep.sweep.checking import Doubter, Doubtful
from lakesweep.sweep.clocks import ahead_of_dataset
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.counting import showing
from lakesweep.sweep.formats import Format
from lakesweep.sweep.guards import Figures, Gone, look
from lakesweep.sweep.holding import held_folders
from lakesweep.sweep.iceberg_scan import is_scan
from lakesweep.sweep.leases import HeldLease
from lakesweep.sweep.liveset import LiveSet, Matched, Mode, figures_document
from lakesweep.sweep.marks import Marks, RootMark, RootState, named_snapshots
from lakesweep.sweep.plans import (
    Amount,
    DatasetRef,
    PlanDocument,
    RootCounts,
    Unlisted,
    dataset_ref,
    incomplete_roots,
)
from lakesweep.sweep.pruning import Pruner
from lakesweep.sweep.records import LakeRecord, RootMemory
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.sweep.ruling import Ruling, make_ruling
from lakesweep.sweep.runs import new_name
from lakesweep.sweep.sizing import high_water
from lakesweep.sweep.steps import JudgeStep
from lakesweep.sweep.stored_plan import publish_plan
from lakesweep.sweep.surveying import Survey, Surveyor
from lakesweep.sweep.tidying import remove_folder
from lakesweep.sweep.totals import (
    TOTALS,
    Dimension,
    classes_of,
    gone_of,
    guesses_of,
    keep_top_tables,
    merge,
    reasons_of,
    shares_of,
    tables_of,
)
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.storage.inventory import Inventory
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.runs import Runs

#: For so long a plan can be applied.
LIFE = timedelta(hours=24)
_MOST_TABLES = 1_000
_MOST_OVERLAPS = 1_000
_MOST_ROOTS = 1_000
#: Every task gets their ids, and guesses are worth no more than this.
_MOST_SNAPSHOTS = 1_000_000


@dataclass(frozen=True)
class PlanOrder:
    """What is asked of a plan. It gets a name of its own unless one is given."""

    lake: Lake
    grace: timedelta
    mode: Mode = Mode.AUTO
    overridden: tuple[str, ...] = ()
    inventory: Inventory | None = None
    name: str | None = None

    def cutoff(self, started: datetime) -> datetime:
        """From when on files are too new: a listing by others knows no more than its own past."""
        seen = started if self.inventory is None else min(started, self.inventory.taken_at)
        return seen - self.grace


@dataclass
class Planner:
    """Makes plans. All parts that touch files run on the engine."""

    stores: Stores
    engine: SweepEngine
    runs: Runs
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    sources: Sources = root_sources

    def plan(self, order: PlanOrder, started: datetime, lease: HeldLease) -> PlanDocument:
        """Write a plan. `started` was read before the lease was taken."""
        lake = order.lake
        name = order.name or new_name("plan", self.clock)
        address = f"{lake.plans}/{name}"
        record = self.runs.lake(lake.name)
        surveyor = Surveyor(
            self.stores, self.engine, self.clock, self.progress, self.seconds, self.sources
        )
        survey = surveyor.survey(lake, record, address, lease, order.inventory)
        listing, marks = survey.listing, survey.marks
        ruling = self._rule(order, survey, record, started)
        with surveyor.phase("judge"):
            doubtful = Doubter(self.stores, self.engine, f"{address}/doubts").look(lake, survey)
            matched = self._judge(order, survey, ruling, doubtful, record, address)
        document = self._describe(order, name, started, survey, ruling, doubtful, matched, record)
        datasets = self._commit(address, listing, marks, matched)
        document = msgspec.structs.replace(document, datasets=datasets, seconds=dict(self.seconds))
        lease.check()
        publish_plan(self.stores, self.runs, address, document, lease.token)
        self._learn(lake.name, marks, document, ruling)
        with suppress(LakesweepError):  # the plan is made; the next one tidies up
            lease.check()
            Pruner(self.stores, self.runs, lake, self.clock.now()).prune()
        return document

    def _rule(
        self, order: PlanOrder, survey: Survey, record: LakeRecord, started: datetime
    ) -> Ruling:
        lake, marks = order.lake, survey.marks
        lake = replace(lake, kept=(*lake.kept, *held_folders(self.runs)))
        memory = self.runs.known_folders(record)
        now = max(self.clock.now(), started)
        return make_ruling(
            lake,
            marks,
            memory,
            order.overridden,
            now=now,
            cutoff=order.cutoff(started),
            snapshots=islice(named_snapshots(self.stores, marks), _MOST_SNAPSHOTS),
            found=survey.foreign,
        )

    def _judge(
        self,
        order: PlanOrder,
        survey: Survey,
        ruling: Ruling,
        doubtful: Doubtful,
        record: LakeRecord,
        address: str,
    ) -> Matched:
        listing, content = survey.listing, survey.marks.content
        live = LiveSet(self.stores, self.engine, content, f"{address}/filter", record.most_live)
        with showing(self.stores, address, self.progress, "judged", total=listing.rows) as shown:
            step = JudgeStep(
                self.stores,
                f"{address}/keep",
                f"{address}/delete",
                ruling.rules,
                shown.folder,
                doubtful.filters,
                doubtful.namesakes,
            )
            matched = live.judge(step, listing, order.mode)
            shown.reach(listing.rows)
        remove_folder(self.stores, f"{address}/doubts")
        return matched

    def _describe(
        self,
        order: PlanOrder,
        name: str,
        started: datetime,
        survey: Survey,
        ruling: Ruling,
        doubtful: Doubtful,
        matched: Matched,
        record: LakeRecord,
    ) -> PlanDocument:
        listing, marks = survey.listing, survey.marks
        # Guards look at every table, the document only shows some.
        every = _totals(matched.answers)
        totals = keep_top_tables(every, _MOST_TABLES)
        incomplete = list(incomplete_roots(marks))
        gone = list(_gone(ruling, every))
        figures = Figures(
            was_applied=record.applied is not None,
            live=_live(_amounts(reasons_of(totals))),
            live_before=record.live,
            listed=listing.rows,
            deletes=_deletes(totals),
            grace=order.grace,
            shares=shares_of(every),
            incomplete=[root.name for root in incomplete],
            gone=gone,
            empty=[f"{each.origin} ({each.reason})" for each in marks.empty],
            foreign=ruling.foreign,
            opted_in=ruling.opted_in,
            missing=doubtful.missing,
            lacking=doubtful.tables,
            clock_ahead=ahead_of_dataset(self.stores, listing, started),
            repositories=[each.folder for each in ruling.formats if each.format is Format.LAKEFS],
        )
        return PlanDocument(
            plan=name,
            lake=order.lake.name,
            created=self.clock.now(),
            expires=started + LIFE,
            cut_off=order.cutoff(started),
            grace_seconds=order.grace.total_seconds(),
            mode=matched.mode.value,
            roots=_count_roots(marks, len(gone)),
            incomplete_roots=tuple(incomplete[:_MOST_ROOTS]),
            unlisted=tuple(islice(_unlisted(marks), _MOST_ROOTS)),
            gone_roots=tuple(gone),
            empty_catalogs=marks.empty,
            foreign=ruling.formats[:_MOST_ROOTS],
            totals=_amounts(reasons_of(totals)),
            guesses={key: Amount(**amount) for key, amount in guesses_of(totals).items()},
            tables=tuple(tables_of(totals)),
            ages=tuple(classes_of(totals, Dimension.AGE)),
            sizes=tuple(classes_of(totals, Dimension.SIZE)),
            overlaps=tuple(_overlaps(ruling)),
            filter=figures_document(matched.filter),
            guards=tuple(look(figures)),
            overridden=order.overridden,
            locations=order.lake.locations,
            spec=_spec(order, self.engine.name, listing, marks),
        )

    def _commit(
        self, address: str, listing: Dataset, marks: Marks, matched: Matched
    ) -> dict[str, DatasetRef]:
        verdicts = {
            verdict.value: commit_dataset(
                self.stores,
                f"{address}/{verdict}",
                answers_of(matched.answers, verdict.value, Part),
                VERDICTS,
            )
            for verdict in Verdict
        }
        named = {"listing": listing, **verdicts}
        refs = {name: dataset_ref(name, dataset) for name, dataset in named.items()}
        return refs | {
            name: dataset_ref(f"marks/{name}", dataset) for name, dataset in marks.datasets.items()
        }

    def _learn(self, lake: str, marks: Marks, document: PlanDocument, ruling: Ruling) -> None:
        """Remember sizes and folders; live counts only where all roots were read.

        A root that is gone, with all that lay in its folders, need not be asked for.
        """
        left = {root.name for root in document.gone_roots}
        over = {name: known.seen_at for name, known in ruling.gone.items() if name not in left}
        now = micros(self.clock.now())
        folders = {root.name: _memory(root, now) for root in marks.in_state(RootState.COMPLETE)}
        is_whole = not document.roots.incomplete

        def change(record: LakeRecord) -> LakeRecord:
            return msgspec.structs.replace(
                record,
                most_live=high_water(record.most_live, marks.content.rows),
                live=_live(document.totals) if is_whole else record.live,
                marks=marks.address,
                mark_hashes={name: each.sha256 for name, each in marks.datasets.items()},
            )

        self.runs.learn(lake, change, folders, over)


def _memory(root: RootMark, now: int) -> RootMemory:
    return RootMemory(
        folders=root.folders,
        seen_at=now,
        pointer=root.pointer if root.facts else "",
        uuid=root.facts.uuid if root.facts else None,
        origin=root.origin,
    )


def _spec(order: PlanOrder, engine: str, listing: Dataset, marks: Marks) -> dict[str, Any]:
    """What was asked for, and how much there was to do."""
    taken = order.inventory
    return {
        "engine": engine,
        "listed": listing.rows,
        "live": marks.content.rows,
        "manifests": marks.figures.manifests,
        "manifests_reused": marks.figures.reused,
        "inventory": None if taken is None else taken.path,
        "inventory_time": None if taken is None else format_moment(taken.taken_at),
    }


def _totals(answers: pa.Table) -> pa.Table:
    rows = list(answers_of(answers, "total", dict[str, Any]))
    return merge([pa.Table.from_pylist(rows, schema=TOTALS)])


def _deletes(totals: pa.Table) -> int:
    found = reasons_of(totals).get(Verdict.DELETE.value, {})
    return sum(amount["files"] for amount in found.values())


def _live(totals: Mapping[str, Mapping[str, Amount]]) -> int:
    """How many stored files are referenced: what roots keep elsewhere says nothing of a lake."""
    found = totals.get(Verdict.KEEP.value, {})
    return found.get(Reason.REFERENCED.value, Amount()).files


def _amounts(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, Amount]]:
    return {
        verdict: {reason: Amount(**amount) for reason, amount in reasons.items()}
        for verdict, reasons in found.items()
    }


def _unlisted(marks: Marks) -> Iterator[Unlisted]:
    for found in marks.found:
        yield Unlisted(found.pointer, found.origin, found.folders, kept=False)
    for root in marks.roots:
        if is_scan(root.origin):
            yield Unlisted(root.pointer or root.name, root.origin, root.folders, kept=True)


def _gone(ruling: Ruling, totals: pa.Table) -> Iterator[Gone]:
    """The roots that are not listed any more, where files lie that may be theirs."""
    for name, (deletes, stored) in gone_of(totals).items():
        known = ruling.gone[name]
        yield Gone(name, known.origin, moment(known.seen_at), stored, deletes)


def _count_roots(marks: Marks, gone: int) -> RootCounts:
    def count(state: RootState) -> int:
        return len(list(marks.in_state(state)))

    return RootCounts(
        complete=count(RootState.COMPLETE),
        incomplete=count(RootState.INCOMPLETE) + len(marks.unknown),
        absent=count(RootState.ABSENT),
        gone=gone,
    )


def _overlaps(ruling: Ruling) -> Iterator[dict[str, Any]]:
    for number, overlap in enumerate(ruling.tables.overlaps()):
        if number == _MOST_OVERLAPS:
            return
        yield dict(msgspec.to_builtins(overlap))
