"""Delete quarantined files for good, unless something references them now.

Long after a plan quarantined files, a table may be rolled back or registered again, or a
commit may revive what another one dropped. So all roots are checked, as before any delete,
and again while files are deleted. Referenced files stay in quarantine and can be restored. If
a root cannot be read, nothing is deleted.

Age and names were judged when the files were quarantined and are not judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.clock import Clock, micros, moment
from lakesweep.config import IcebergScanRoot
from lakesweep.errors import IncompleteError
from lakesweep.hashing import HashSet
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.fencing import RequestFence
from lakesweep.runs.location_lock import lock_locations
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import empty_quarantine, keep_held
from lakesweep.storage.file_batches import FIRST_TIME
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.sweep.apply.deletion import BATCH_ROWS
from lakesweep.sweep.apply.root_watch import WATCH_SECONDS
from lakesweep.sweep.columns import LISTING, hashes_of
from lakesweep.sweep.guards import (
    MIN_GRACE,
    GoneRoot,
    Guard,
    PlanFigures,
    check_clock,
    dataset_clock_skew,
    failed_guards,
    refuse,
)
from lakesweep.sweep.holdings import Holding
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.judge.totals import gone_of, totals_of
from lakesweep.sweep.mark.survey import Surveyor, files_of
from lakesweep.sweep.paths.folder_map import FolderMap
from lakesweep.sweep.plan.document import IncompleteRoot
from lakesweep.sweep.quarantine.restore import QuarantineRestorer
from lakesweep.sweep.references import (
    ReferenceCheck,
    ReferencedFiles,
    UnreferencedDeletion,
    references_only,
)
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.root import RootSource

#: This many of the kept files are reported by name.
MOST_NAMES = 1_000


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
        wider = _where_it_lay(lake, holding)
        try:
            with lock_locations(self.stores, self.runs, wider.locations, session):
                return self._release(wider, holding, session, address, overridden)
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
        started = self.clock.now()
        # Once, before the roots are read: a file that is restored meanwhile is found absent below.
        held = write_dataset(self.stores, f"{address}/held", LISTING, _once(keeper.files(holding)))
        check = self._check(lake, holding, address)
        marks = self._surveyor().earlier(self.runs.lake(lake.name))

        def look() -> ReferencedFiles:
            nonlocal marks
            seen = check.look(held, marks)
            marks = seen.marks
            again = f"lakesweep quarantine empty {holding.plan}"
            guards = [
                *failed_guards(_figures(seen, held)),
                *self._check_hold(holding, held, started),
            ]
            refuse(guards, overridden, holding.plan, again=again)
            return seen

        released = EmptyingResult()
        # The roots are read right before the first delete, and watched while the others go: a table
        # may have been registered again since the files were set aside.
        with UnreferencedDeletion(
            look,
            check.sources,
            partial(self._empty, session),
            partial(map, partial(keep_held, self.stores)),
            self.look_every,
            self.batch_rows,
        ) as deletion:
            for outcomes in deletion(keeper.files(holding)):
                released.add(outcomes)
        keeper.check_found(holding, released.tally.found)
        return released

    def _check_hold(self, holding: Holding, held: Dataset, started: datetime) -> Iterator[Guard]:
        """The guard against a clock by which a hold is over that has only begun."""
        if holding.hold_until is not None and holding.hold_until <= micros(started):
            yield from check_clock(dataset_clock_skew(self.stores, held, started))

    def _empty(
        self, session: Session, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        # A copy in quarantine is the last one. Each request asks the fence, not only each batch.
        session.lease.check()
        fence = RequestFence(session.lease.verified_until, self.clock)
        yield from empty_quarantine(FencedStores(self.stores, fence), batches)
        if fence.ended is not None:
            raise fence.ended

    def _check(self, lake: Lake, holding: Holding, address: str) -> ReferenceCheck:
        def veto(root: IncompleteRoot) -> IncompleteError:
            return IncompleteError(
                f"{root.name} could not be read and may reference what {holding.plan} quarantined;"
                f" nothing more is deleted: {root.reason}",
                hint="fix it, or restore what it needs with lakesweep quarantine restore"
                f" {holding.plan}, then empty again",
            )

        memory = self.runs.known_folders(self.runs.lake(lake.name))
        return ReferenceCheck(
            self.stores,
            self.engine,
            self.clock,
            lake,
            self._sources(lake, address),
            address,
            veto,
            memory,
            self.progress,
            _quarantined_rules,
        )

    def _surveyor(self) -> Surveyor:
        return Surveyor(self.stores, self.engine, self.clock, self.progress, sources=self.sources)

    def _sources(self, lake: Lake, address: str) -> Callable[[], Sequence[RootSource]]:
        """The sources of roots. Only a scan needs a listing."""
        if any(isinstance(root, IcebergScanRoot) for root in lake.section.roots):
            listing, _ = self._surveyor().list_files(lake, f"{address}/listing")
        else:
            listing = write_dataset(self.stores, f"{address}/listing", LISTING, [])
        return lambda: self.sources(self.stores, lake, files_of(self.stores, listing))


def _quarantined_rules(rules: JudgeRules) -> JudgeRules:
    """Files lay where they may lie again, even if that is a folder of Lakesweep's own today."""
    return replace(references_only(rules), own=FolderMap())


def _figures(seen: ReferencedFiles, held: Dataset) -> PlanFigures:
    """What guards check: roots that are no longer listed, and empty catalogs."""
    gone = gone_of(totals_of(seen.totals))
    known = {name: seen.ruling.gone[name] for name in gone}
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
        empty=[f"{each.origin} ({each.reason})" for each in seen.marks.empty],
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
