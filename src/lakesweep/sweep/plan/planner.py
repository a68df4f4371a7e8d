"""Make a plan: list, mark, judge, write it down.

The order must not change. The clock is read first and a lease is taken. The listing is
complete and stored before the first root is read, so a file that becomes referenced while it
is being listed is seen as referenced. Nothing is deleted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock, micros, moment
from lakesweep.errors import NotFoundError
from lakesweep.iceberg.metadata import guess_location
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.leases import HeldLease
from lakesweep.runs.records import LakeRecord, RootMemory, home_folder, new_name
from lakesweep.runs.restore_marks import read_restore_marks
from lakesweep.runs.run_figures import Recorded
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.engine.protocol import results_of
from lakesweep.sweep.guards import GoneRoot, PlanFigures, dataset_clock_skew, failed_guards
from lakesweep.sweep.holdings import held_folders
from lakesweep.sweep.judge.dangling_search import DanglingResult, DanglingSearch
from lakesweep.sweep.judge.live_set import (
    MOST_HOMES,
    JudgeStep,
    LiveSet,
    MatchMode,
    MatchResult,
    figures_document,
)
from lakesweep.sweep.judge.rules import LakeRules, make_rules
from lakesweep.sweep.judge.totals import (
    NO_FILES,
    Dimension,
    FileTotals,
    classes_of,
    gone_of,
    guesses_of,
    keep_top_tables,
    reasons_of,
    shares_of,
    table_deletes_of,
    tables_of,
    totals_of,
    unlisted_of,
)
from lakesweep.sweep.judge.unlisted_tables import (
    SurveyedFolders,
    UnlistedFolder,
    UnlistedSearch,
    named_tables,
)
from lakesweep.sweep.mark.earlier_marks import newest_marks
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState, named_snapshots
from lakesweep.sweep.mark.survey import LakeSurvey, Surveyor
from lakesweep.sweep.paths.folder_map import claimed_folder
from lakesweep.sweep.paths.foreign_formats import TABLES, ForeignFormat
from lakesweep.sweep.plan.document import (
    MOST_ROOTS,
    PLAN_LIFETIME,
    DatasetRef,
    PlanDocument,
    RootCounts,
    UnlistedTable,
    accepted_guards,
    incomplete_roots,
    unlisted_roots,
)
from lakesweep.sweep.plan.publication import PlanPublisher, plan_datasets
from lakesweep.sweep.roots.iceberg_scan import is_scan
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.units import format_moment, format_some

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.listing.inventory import Inventory
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake

_MOST_TABLES = 1_000
_MOST_OVERLAPS = 1_000
#: Every task gets their ids; more would cost more than the probable causes are worth.
_MOST_SNAPSHOTS = 1_000_000


@dataclass(frozen=True)
class PlanRequest:
    """What to plan, and how. Without `name` the plan gets a new one."""

    lake: Lake
    grace: timedelta
    mode: MatchMode = MatchMode.AUTO
    overridden: tuple[str, ...] = ()
    inventory: Inventory | None = None
    name: str | None = None

    def cutoff(self, started: datetime) -> datetime:
        """Newer files are kept. An inventory knows nothing that was written after it."""
        seen = started if self.inventory is None else min(started, self.inventory.taken_at)
        return seen - self.grace


@dataclass
class Planner:
    """Makes plans. Everything that touches files runs on the engine."""

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    sources: RootSourceFactory = root_sources

    def plan(self, order: PlanRequest, started: datetime, lease: HeldLease) -> PlanDocument:
        """Write a plan. `started` was read before the lease was taken."""
        lake = order.lake
        order = replace(order, name=order.name or new_name("plan", self.clock))
        address = f"{lake.plans}/{order.name}"
        record = self.runs.lake(lake.name)
        # Before the listing, which may or may not have what a restore is bringing back.
        restores = read_restore_marks(self.stores, lake.name, lake.locations)
        surveyor = Surveyor(
            self.stores,
            self.engine,
            self.clock,
            self.progress,
            self.seconds,
            self.sources,
            lambda: newest_marks(self.stores, self.runs, lake.name),
        )
        survey = surveyor.survey(lake, record, address, lease, order.inventory)
        listing, marks = survey.listing, survey.marks
        ruling = self._rule(order, survey, record, started)
        with surveyor.phase("judge"):
            doubtful = DanglingSearch(self.stores, self.engine, f"{address}/doubts").look(
                lake, survey
            )
            matched = self._judge(order, survey, ruling, doubtful, record, address)
        # Guards check every table; the document shows only some.
        every = totals_of(matched.answers)
        document = self._describe(order, started, survey, ruling, doubtful, matched, every, record)
        datasets = self._commit(address, listing, marks, matched)
        document = msgspec.structs.replace(
            document,
            datasets=datasets,
            seconds=dict(self.seconds),
            restores=restores,
            inner_homes=_inner_homes(lake, ruling, matched),
        )
        PlanPublisher(self.stores, self.runs, self.clock, lake, lease).publish(
            address,
            document,
            lambda: self._learn(lake.name, survey, document, ruling, set(gone_of(every))),
        )
        return document

    def _rule(
        self, order: PlanRequest, survey: LakeSurvey, record: LakeRecord, started: datetime
    ) -> LakeRules:
        lake, marks = order.lake, survey.marks
        lake = replace(
            lake,
            kept=(*lake.kept, *held_folders(self.runs)),
            unlisted=tuple(each.location for each in survey.unlisted),
        )
        memory = self.runs.known_folders(record)
        now = max(self.clock.now(), started)
        return make_rules(
            lake,
            marks,
            memory,
            order.overridden,
            now=now,
            cutoff=order.cutoff(started),
            snapshots=islice(named_snapshots(self.stores, marks), _MOST_SNAPSHOTS),
            found=SurveyedFolders(
                tuple(each for each in survey.foreign if each.format not in TABLES),
                self._unlisted(order, lake, survey, memory),
            ),
        )

    def _unlisted(
        self,
        order: PlanRequest,
        lake: Lake,
        survey: LakeSurvey,
        memory: Mapping[str, RootMemory],
    ) -> tuple[UnlistedFolder, ...]:
        """The tables that no root lists. NotFoundError if an override names another one."""
        found = UnlistedSearch(self.stores, lake, survey.marks, memory).find(survey.foreign)
        known = {claimed_folder(each.folder) for each in found}
        for name in named_tables(order.overridden):
            if claimed_folder(name) not in known:
                there = format_some([each.folder for each in found]) if found else "there is none"
                raise NotFoundError(
                    f"{name} is no table that the roots of the lake leave out: {there}",
                    hint="name the folder of the table as the plan shows it",
                )
        return found

    def _judge(
        self,
        order: PlanRequest,
        survey: LakeSurvey,
        ruling: LakeRules,
        doubtful: DanglingResult,
        record: LakeRecord,
        address: str,
    ) -> MatchResult:
        listing, content = survey.listing, survey.marks.content
        most = order.lake.section.filter_bytes
        folder = f"{address}/filter"
        live = LiveSet(self.stores, self.engine, content, folder, record.most_live, most)
        with show_progress(
            self.stores, address, self.progress, "judged", total=listing.rows
        ) as shown:
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
        order: PlanRequest,
        started: datetime,
        survey: LakeSurvey,
        ruling: LakeRules,
        doubtful: DanglingResult,
        matched: MatchResult,
        every: pa.Table,
        record: LakeRecord,
    ) -> PlanDocument:
        listing, marks = survey.listing, survey.marks
        totals = keep_top_tables(every, _MOST_TABLES)
        incomplete = [*unlisted_roots(survey), *incomplete_roots(marks)]
        gone = list(_gone(ruling, every))
        unlisted = list(_unlisted_tables(ruling, every))
        figures = PlanFigures(
            was_applied=record.applied is not None,
            live=_live(reasons_of(totals)),
            # What was not listed does not count as live.
            live_before=None if survey.unlisted else record.live,
            listed=listing.rows,
            deletes=_deletes(totals),
            grace=order.grace,
            shares=shares_of(every),
            incomplete=[root.name for root in incomplete],
            gone=gone,
            unlisted=list(_withheld_tables(unlisted)),
            empty=[f"{each.origin} ({each.reason})" for each in marks.empty],
            foreign=ruling.foreign,
            opted_in=ruling.opted_in,
            missing=doubtful.missing,
            lacking=doubtful.tables,
            table_deletes=table_deletes_of(every),
            clock_ahead=dataset_clock_skew(self.stores, listing, started),
            repositories=[
                each.folder for each in ruling.formats if each.format is ForeignFormat.LAKEFS
            ],
        )
        return PlanDocument(
            plan=order.name or "",
            lake=order.lake.name,
            created=self.clock.now(),
            expires=started + PLAN_LIFETIME,
            cut_off=order.cutoff(started),
            grace_seconds=order.grace.total_seconds(),
            configured_grace_seconds=order.lake.grace.total_seconds(),
            mode=matched.mode.value,
            roots=_count_roots(marks, len(gone), len(survey.unlisted)),
            incomplete_roots=tuple(incomplete[:MOST_ROOTS]),
            unlisted=tuple(islice(chain(unlisted, _scanned(marks, unlisted)), MOST_ROOTS)),
            gone_roots=tuple(gone),
            empty_catalogs=marks.empty,
            foreign=ruling.formats[:MOST_ROOTS],
            totals=reasons_of(totals),
            guesses=guesses_of(totals),
            tables=tuple(tables_of(totals)),
            ages=tuple(classes_of(totals, Dimension.AGE)),
            sizes=tuple(classes_of(totals, Dimension.SIZE)),
            overlaps=tuple(islice(ruling.tables.overlaps(), _MOST_OVERLAPS)),
            filter=figures_document(matched.filter),
            guards=tuple(failed_guards(figures)),
            overridden=order.overridden,
            accepted=accepted_guards(order.lake, self.clock.now()),
            locations=order.lake.locations,
            spec=_spec(order, self.engine.name, listing, marks),
        )

    def _commit(
        self, address: str, listing: Dataset, marks: Marks, matched: MatchResult
    ) -> dict[str, DatasetRef]:
        verdicts = {
            verdict.value: commit_dataset(
                self.stores,
                f"{address}/{verdict}",
                results_of(matched.answers, verdict.value, Part),
                VERDICTS,
            )
            for verdict in Verdict
        }
        return plan_datasets({"listing": listing, **verdicts}, marks)

    def _learn(
        self,
        lake: str,
        survey: LakeSurvey,
        document: PlanDocument,
        ruling: LakeRules,
        left: set[str],
    ) -> None:
        """Remember sizes and folders, and the live count if all roots were read.

        A root that is gone together with all files in its folders is forgotten, unless some files
        may not have been listed. Of the roots in `left` some are stored.
        """
        marks = survey.marks
        left |= ruling.gone.keys() if survey.unlisted else set()
        over = {name: known.seen_at for name, known in ruling.gone.items() if name not in left}
        now = micros(self.clock.now())
        folders = {root.name: _memory(root, now) for root in marks.in_state(RootState.COMPLETE)}
        is_whole = not document.roots.incomplete

        def change(record: LakeRecord) -> LakeRecord:
            return msgspec.structs.replace(
                record,
                most_live=max(record.most_live, marks.content.rows),
                listed=survey.listing.rows,
                live=_live(document.totals) if is_whole else record.live,
                marks=marks.address,
                mark_hashes={name: each.sha256 for name, each in marks.datasets.items()},
            )

        self.runs.learn(lake, change, folders, over)


def _inner_homes(lake: Lake, ruling: LakeRules, matched: MatchResult) -> tuple[str, ...]:
    """Where other lakes keep their locks and marks, below the locations of this one.

    Lakes of our own configuration do not count while everything in their locations is kept.
    """
    own = {claimed_folder(home_folder(lake.name, location)) for location in lake.locations}
    homes = {claimed_folder(home): home for home in results_of(matched.answers, "home", str)}
    found = pa.array(sorted(homes.keys() - own), pa.string())
    others = found.filter(pa.array(ruling.rules.foreign.find(found) < 0))
    return tuple(homes[home] for home in others.to_pylist()[:MOST_HOMES])


def _memory(root: RootMark, now: int) -> RootMemory:
    return RootMemory(
        folders=root.folders,
        seen_at=now,
        pointer=root.pointer if root.facts else "",
        uuid=root.facts.uuid if root.facts else None,
        origin=root.origin,
    )


def _spec(order: PlanRequest, engine: str, listing: Dataset, marks: Marks) -> Recorded:
    """What was asked for, and how much was read."""
    taken = order.inventory
    return {
        "engine": engine,
        "listed": listing.rows,
        "live": marks.content.rows,
        "manifests": marks.figures.manifests,
        "manifests_reused": marks.figures.reused,
        "roots_unread": marks.figures.unread_roots,
        "inventory": None if taken is None else taken.path,
        "inventory_time": None if taken is None else format_moment(taken.taken_at),
    }


def _deletes(totals: pa.Table) -> int:
    found = reasons_of(totals).get(Verdict.DELETE.value, {})
    return sum(amount.files for amount in found.values())


def _live(totals: Mapping[str, Mapping[str, FileTotals]]) -> int:
    """How many stored files are referenced; references to other places do not count."""
    found = totals.get(Verdict.KEEP.value, {})
    return found.get(Reason.REFERENCED.value, NO_FILES).files


def _unlisted_tables(ruling: LakeRules, totals: pa.Table) -> Iterator[UnlistedTable]:
    """The tables that no root lists and that have files in the lake, and those that are let go."""
    amounts = unlisted_of(totals)
    # First those that were let go: apply asks again whether they may.
    for each in sorted(ruling.unlisted, key=lambda each: each.folder not in ruling.released):
        is_kept = each.folder not in ruling.released
        amount = amounts.get(each.folder, NO_FILES)
        if amount.files or not is_kept:
            yield UnlistedTable(
                each.folder,
                each.format,
                (each.folder, *each.declared),
                kept=is_kept,
                files=amount.files,
                bytes=amount.bytes,
            )


def _withheld_tables(unlisted: Sequence[UnlistedTable]) -> Iterator[tuple[str, int]]:
    """The tables that the guard is about: not those that somebody let go by name.

    Apply asks again about those in the plan's list, or about all if the list is too short.
    """
    is_cut = len(unlisted) >= MOST_ROOTS
    return ((each.pointer, each.files) for each in unlisted if each.kept or is_cut)


def _scanned(marks: Marks, unlisted: Sequence[UnlistedTable]) -> Iterator[UnlistedTable]:
    """What scans found, and is not among those that no root lists."""
    known = {claimed_folder(each.pointer) for each in unlisted}
    for found in marks.found:
        if claimed_folder(guess_location(found.pointer)) not in known:
            yield UnlistedTable(found.pointer, found.origin, found.folders, kept=False)
    for root in marks.roots:
        if is_scan(root.origin):
            yield UnlistedTable(root.pointer or root.name, root.origin, root.folders, kept=True)


def _gone(ruling: LakeRules, totals: pa.Table) -> Iterator[GoneRoot]:
    """The roots that are no longer listed, but have files in folders they used."""
    for name, (deletes, stored) in gone_of(totals).items():
        known = ruling.gone[name]
        if known.dropped:
            continue
        yield GoneRoot(name, known.origin, moment(known.seen_at), stored, deletes)


def _count_roots(marks: Marks, gone: int, unlisted: int) -> RootCounts:
    def count(state: RootState) -> int:
        return len(list(marks.in_state(state)))

    return RootCounts(
        complete=count(RootState.COMPLETE),
        incomplete=count(RootState.INCOMPLETE) + len(marks.unknown) + unlisted,
        absent=count(RootState.ABSENT),
        gone=gone,
    )
