"""Delete quarantined files for good, unless something references them now.

Long after a plan quarantined files, a table may be rolled back or registered again, or a
commit may revive what another one dropped. So all roots are checked, as before any delete,
and again while files are deleted. Referenced files stay in quarantine and can be restored. If
a root cannot be read, nothing is deleted.

Age and names were judged when the files were quarantined and are not judged again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.clock import Clock
from lakesweep.config import IcebergScanRoot
from lakesweep.errors import IncompleteError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import commit_dataset, write_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import empty_quarantine, keep_held
from lakesweep.storage.file_batches import FIRST_TIME, coalesce_batches
from lakesweep.storage.object_store import Outcome
from lakesweep.sweep.apply.deletion import BATCH_ROWS
from lakesweep.sweep.apply.root_watch import WATCH_SECONDS, RootWatch, watch_roots
from lakesweep.sweep.columns import LISTING, VERDICTS, hashes_of
from lakesweep.sweep.engine.local_engine import load_hashes
from lakesweep.sweep.engine.tasks import TASK_RESULTS, results_of
from lakesweep.sweep.guards import MIN_GRACE, GoneRoot, PlanFigures, failed_guards, refuse
from lakesweep.sweep.holdings import Holding
from lakesweep.sweep.judge.live_set import JudgeStep
from lakesweep.sweep.judge.live_subsets import SubsetFilters
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.judge.rules import LakeRules, make_rules
from lakesweep.sweep.judge.totals import TOTALS, gone_of, merge_totals
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.survey import Surveyor, files_of
from lakesweep.sweep.paths.file_names import FormatFamily
from lakesweep.sweep.paths.folder_map import FolderMap
from lakesweep.sweep.plan.document import incomplete_roots
from lakesweep.sweep.quarantine.restore import QuarantineRestorer
from lakesweep.sweep.roots.sources import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Verdict
from lakesweep.timestamps import moment

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks
    from lakesweep.sweep.roots.root import RootSource

#: This many of the kept files are reported by name.
MOST_NAMES = 1_000
#: Rechecking takes no more than about a fifth of the time, however busy the lake is.
_REST = 4


@dataclass
class EmptyingResult:
    """What became of quarantined files. `referenced` are some of the files that were kept."""

    tally: OutcomeTotals = field(default_factory=OutcomeTotals)
    referenced: list[str] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """How many were kept because something references them."""
        return self.tally.counts[Outcome.REFERENCED]

    def add(self, outcomes: pa.RecordBatch) -> None:
        """Count a batch of OUTCOME_SCHEMA."""
        self.tally.add(outcomes)
        stays = outcomes.filter(pc.equal(outcomes["outcome"], Outcome.REFERENCED.value))
        self.referenced += stays["path"].to_pylist()[: MOST_NAMES - len(self.referenced)]


@dataclass(frozen=True)
class QuarantineEmptier:
    """Empties quarantines. Everything that touches many files runs on the engine."""

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    progress: Progress = SILENT
    sources: RootSourceFactory = root_sources
    look_every: timedelta = WATCH_SECONDS
    batch_rows: int = BATCH_ROWS

    def release(
        self, lake: Lake, holding: Holding, session: Session, overridden: Collection[str] = ()
    ) -> EmptyingResult:
        """Delete permanently what nothing references. `session` holds the lake's lease."""
        address = f"{lake.plans}/{session.record.run}"
        try:
            return self._release(
                _where_it_lay(lake, holding), holding, session, address, overridden
            )
        finally:
            remove_folder(self.stores, address)

    def _release(
        self,
        lake: Lake,
        holding: Holding,
        session: Session,
        address: str,
        overridden: Collection[str],
    ) -> EmptyingResult:
        keeper = QuarantineRestorer(self.stores, self.runs, lake)
        held = write_dataset(self.stores, f"{address}/held", LISTING, _once(keeper.files(holding)))
        released, every = EmptyingResult(), self.look_every.total_seconds()
        batches = self._batches(keeper.files(holding))
        asked = self._sources(lake, address)
        marks = self._surveyor().earlier(self.runs.lake(lake.name))
        for number in count(1):
            begin, folder = time.monotonic(), f"{address}/look-{number}"
            marks = self._mark(holding, asked(), marks, folder)
            stays = self._judge(lake, holding, held, marks, folder, overridden)
            every = max(every, _REST * (time.monotonic() - begin)) if number > 1 else every
            moved = threading.Event()
            with watch_roots(RootWatch(asked(), marks, every), moved.set):
                if self._empty(batches, stays, session, released, moved):
                    break
        keeper.check_found(holding, released.tally.found)
        return released

    def _empty(
        self,
        batches: Iterator[pa.RecordBatch],
        stays: HashSet,
        session: Session,
        released: EmptyingResult,
        moved: threading.Event,
    ) -> bool:
        """Delete batch after batch until roots change; whether all are done."""
        for batch in batches:
            session.lease.check()
            is_kept = stays.contains(hashes_of(batch))
            for outcomes in empty_quarantine(self.stores, [batch.filter(pa.array(~is_kept))]):
                released.add(outcomes)
            released.add(keep_held(self.stores, batch.filter(pa.array(is_kept))))
            if moved.is_set():
                return False
        return True

    def _batches(self, files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches that are small enough to check the roots in between."""
        for batch in coalesce_batches(files, self.batch_rows):
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows)

    def _surveyor(self) -> Surveyor:
        return Surveyor(self.stores, self.engine, self.clock, self.progress, sources=self.sources)

    def _sources(self, lake: Lake, address: str) -> Callable[[], Sequence[RootSource]]:
        """The sources of roots. Only a scan needs a listing."""
        if any(isinstance(root, IcebergScanRoot) for root in lake.section.roots):
            listing, _ = self._surveyor().list_files(lake, f"{address}/listing")
        else:
            listing = write_dataset(self.stores, f"{address}/listing", LISTING, [])
        return lambda: self.sources(self.stores, lake, files_of(self.stores, listing))

    def _mark(
        self,
        holding: Holding,
        sources: Sequence[RootSource],
        cache: Marks | None,
        folder: str,
    ) -> Marks:
        """Everything that is referenced now."""
        with show_progress(
            self.stores, folder, self.progress, "marked", unit="metadata files"
        ) as shown:
            spec = MarkSpec(
                self.engine, self.stores, f"{folder}/marks", cache=cache, counts=shown.folder
            )
            marks = mark(spec, sources)
            shown.reach(marks.datasets["sources"].rows)
        for root in incomplete_roots(marks):
            raise IncompleteError(
                f"{root.name} could not be read and may reference what {holding.plan} quarantined;"
                f" nothing more is deleted: {root.reason}",
                hint="fix it, or restore what it needs with lakesweep quarantine restore"
                f" {holding.plan}, then empty again",
            )
        return marks

    def _judge(
        self,
        lake: Lake,
        holding: Holding,
        held: Dataset,
        marks: Marks,
        folder: str,
        overridden: Collection[str],
    ) -> HashSet:
        """The hashes of the files to keep."""
        memory = self.runs.known_folders(self.runs.lake(lake.name))
        now = self.clock.now()
        ruling = make_rules(lake, marks, memory, _JUDGED_BEFORE, now=now, cutoff=now)
        used = SubsetFilters(self.stores, self.engine, f"{folder}/chosen").used_names(marks)
        step = JudgeStep(
            self.stores,
            f"{folder}/keep",
            f"{folder}/delete",
            _references_only(ruling.rules),
            namesakes=used,
        )
        answers = self.engine.match(step, held, marks.content, TASK_RESULTS)
        figures = _figures(marks, ruling, held, answers)
        again = f"lakesweep quarantine empty {holding.plan}"
        refuse(failed_guards(figures), overridden, holding.plan, again=again)
        parts = results_of(answers, Verdict.KEEP.value, Part)
        kept = commit_dataset(self.stores, f"{folder}/keep", parts, VERDICTS)
        return load_hashes(self.stores, kept)


#: Guards that the plan has already passed, or that were overridden there.
_JUDGED_BEFORE = (GuardName.FOREIGN, GuardName.GC_ENABLED)


def _references_only(rules: JudgeRules) -> JudgeRules:
    """Rules that keep only referenced files."""
    return replace(
        rules, families=frozenset(FormatFamily), excludes=(), keep_unknown=False, own=FolderMap()
    )


def _figures(marks: Marks, ruling: LakeRules, held: Dataset, answers: pa.Table) -> PlanFigures:
    """What guards check: roots that are no longer listed, and empty catalogs."""
    rows = list(results_of(answers, "total", dict[str, Any]))
    gone = gone_of(merge_totals([pa.Table.from_pylist(rows, schema=TOTALS)]))
    known = {name: ruling.gone[name] for name in gone}
    return PlanFigures(
        was_applied=True,
        live=held.rows,
        live_before=None,
        listed=held.rows,
        deletes=held.rows,
        grace=MIN_GRACE,
        gone=[
            GoneRoot(name, known[name].origin, moment(known[name].seen_at), stored, deletes)
            for name, (deletes, stored) in gone.items()
        ],
        empty=[f"{each.origin} ({each.reason})" for each in marks.empty],
    )


def _where_it_lay(lake: Lake, holding: Holding) -> Lake:
    """The lake with all locations that files were quarantined from, even if removed since."""
    locations = tuple(dict.fromkeys((*lake.locations, *holding.locations)))
    return replace(lake, section=lake.section.model_copy(update={"locations": locations}))


def _once(files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Files as rows of LISTING, each once, and old enough for any grace."""
    known = HashSet()
    for batch in files:
        new = batch.filter(pa.array(known.add(hashes_of(batch)))).select(LISTING.names)
        old = pa.repeat(pa.scalar(FIRST_TIME, LISTING.field("modified").type), new.num_rows)
        yield new.set_column(LISTING.names.index("modified"), LISTING.field("modified"), old).cast(
            LISTING
        )
