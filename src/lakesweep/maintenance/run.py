"""One maintenance run, from the first realm to the last row.

The references of a realm are scanned first, and those that nothing retains are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np

from lakesweep.clock import Clock, micros
from lakesweep.errors import LakesweepError, LeaseHeldError, StoreError
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits, SeenPointers, read_pointers
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.engine import MaintenanceEngine
from lakesweep.maintenance.live_filters import (
    FilterSize,
    FilterSizes,
    GrowingFilter,
    LiveFilters,
    name_hashes,
)
from lakesweep.maintenance.maintained_realms import (
    MaintenanceRunSpec,
    MarkedRealm,
    OpenRealm,
    await_purge_visible,
    open_realm,
    open_system,
    purge_realm,
    realm_purger,
    require_purgeable,
)
from lakesweep.maintenance.plugin_api import Plugin, RealmIdentifier
from lakesweep.maintenance.reachability import RealmCollector, identify, is_owned
from lakesweep.maintenance.row_scan import RowScan, ScanLease, ScanPage
from lakesweep.maintenance.row_verdicts import RowDeleter, RowRules
from lakesweep.maintenance.run_records import LiveFilterFigures, MaintenanceStats
from lakesweep.maintenance.run_tally import RunTally
from lakesweep.progress import Progress, ProgressTask
from lakesweep.storage.wrappers.rate_limit import TokenBucket
from lakesweep.store import Realm, Store
from lakesweep.store.backends.backend import SCAN_ROWS
from lakesweep.store.backends.rows import IdSpan, Reference, batches

#: How many spans there are for each that is scanned at once, since not all are equally full.
_SPANS_A_SLOT = 4
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """What a run needs. `look` raises as soon as it must stop; a dry run changes nothing."""

    store: Store
    config: MaintenanceConfig
    plugins: Sequence[Plugin]
    engine: MaintenanceEngine
    clock: Clock
    progress: Progress
    spec: MaintenanceRunSpec
    sizes: FilterSizes
    started: datetime
    tally: RunTally
    look: Callable[[], None]
    fence: ScanLease | None
    is_dry_run: bool

    @property
    def cut_off(self) -> datetime:
        """Everything written later is retained, referenced or not."""
        return self.started - self.config.grace

    def go(self) -> None:
        """Do everything. Problems are recorded in the tally; LeaseHeldError ends the run."""
        self._purge_realms()
        realms = list(self._open_realms())
        self._tidy(realms)
        marks = LiveFilters(self._filter(self.sizes.references), self._filter(self.sizes.objects))
        known = self._identify(realms, marks)
        figures = _figures(marks)
        self.tally.learn(figures)
        deletes = not self.is_dry_run and self._may_delete(figures)
        for realm in known:
            with self._softly(realm.opened.realm.name):
                concurrent = ConcurrentCommits(realm.opened.realm, realm.seen, micros(self.cut_off))
                self._scan_references(realm.opened, marks, concurrent, deletes=deletes)
                self._scan_rows(realm.opened, marks, concurrent, deletes=deletes)

    def _purge_realms(self) -> None:
        names = sorted(self.spec.realms_to_purge)
        purge = realm_purger(self.store, self.clock, self.progress)
        at_once = self.store.backend.capabilities.deletes_realms
        if names and not self.is_dry_run:
            await_purge_visible(self.clock)
        for name in names:
            self.look()
            with self._softly(name):
                if self.is_dry_run:
                    found = purge.count(require_purgeable(self.store.realms.get(name)).name)
                    self.tally.add_purgeable_realm(name, found)
                else:
                    self.tally.add_purged_realm(name, purge_realm(purge, name), at_once=at_once)

    def _open_realms(self) -> Iterator[OpenRealm]:
        for name in sorted(self.spec.realms_to_process):
            with self._softly(name):
                yield open_realm(self.store, name, self.clock, self.look)
        if self.spec.include_system_realm:
            yield open_system(self.store, self.look)

    def _tidy(self, realms: Sequence[OpenRealm]) -> None:
        tidiers = [tidier for plugin in self.plugins for tidier in plugin.tidiers]
        for each in realms:
            for tidier in tidiers if each.is_active else ():
                with self._softly(each.realm.name):
                    each.look()
                    counts = tidier.tidy(each.realm, dry_run=self.is_dry_run)
                    self.tally.add_tidied(each.realm.name, counts)

    def _identify(self, realms: Sequence[OpenRealm], marks: LiveFilters) -> Sequence[MarkedRealm]:
        """The realms whose live objects are all known; nothing is deleted from others."""
        known = []
        for each in realms:
            with self._softly(each.realm.name):
                known.append(MarkedRealm(each, self._mark(each, marks)))
        return known

    def _mark(self, each: OpenRealm, marks: LiveFilters) -> SeenPointers:
        collector = self._collector(each)
        # Before anything is read through them: what moves after this is a concurrent commit.
        seen = read_pointers(each.realm)
        with self.progress.task("identified", unit="objects") as task:
            if not identify(collector, self._identifiers, seen):
                raise StoreError("no plug-in knows what it contains; it was left alone")
            collector.collect(task, partial(self._look, each, collector))
        # Only when everything was read: a realm that is marked in part would lose its other part.
        collector.mark(marks)
        self.tally.add_identified(collector)
        return seen

    def _look(self, each: OpenRealm, collector: RealmCollector) -> None:
        each.look()
        self.tally.note_identified(collector)

    def _collector(self, each: OpenRealm) -> RealmCollector:
        types = [identifier for plugin in self.plugins for identifier in plugin.types]
        history = partial(self.config.history_of, now=self.started)
        reader = self.engine.links(each.realm, {identifier.type for identifier in types})
        return RealmCollector(each.realm, self.cut_off, history, reader, types)

    @property
    def _identifiers(self) -> Sequence[RealmIdentifier]:
        return [identifier for plugin in self.plugins for identifier in plugin.realms]

    def _may_delete(self, figures: LiveFilterFigures) -> bool:
        worst = figures.worst_fpp
        may = self.config.filter_policy.accepts(worst)
        if not may:
            self.tally.complain(
                f"the filters are too full, with a false-positive rate of {worst:.2g}: nothing was "
                "deleted; raise filter_bytes in [maintenance]"
            )
        return may

    def _scan_references(
        self, each: OpenRealm, marks: LiveFilters, concurrent: ConcurrentCommits, *, deletes: bool
    ) -> None:
        rate = self.config.reference_scan_rate_limit_per_second
        scan = ReferenceScan(
            each.realm,
            marks.references,
            micros(self.cut_off),
            partial(is_owned, self._identifiers),
            concurrent,
            each.look,
            self._bucket(rate),
            _page(rate),
            deletes,
        )
        self.tally.add_references(each.realm.name, scan.run())

    def _scan_rows(
        self, each: OpenRealm, marks: LiveFilters, concurrent: ConcurrentCommits, *, deletes: bool
    ) -> None:
        realm, rate = each.realm, self.config.object_scan_rate_limit_per_second
        spans = self.tally.spans(realm.name)
        if spans is None:
            spans = self._split(each)
            self.tally.begin(realm.name, spans)
        deleter = RowDeleter(
            realm.backend, realm.name, self.config.delete_batch_size, self.clock, each.look
        )
        scan = RowScan(
            realm.backend,
            RowRules(
                realm.name, micros(self.cut_off), marks.objects.filters, self.store.type_names
            ),
            self.clock,
            concurrent,
            deleter if deletes else None,
            self._bucket(rate),
            _page(rate),
            self.fence,
        )
        with self.progress.task("scanned", unit="rows") as task:
            self.engine.scan(scan, spans, _Report(realm.name, self.tally, task, each.look))

    def _split(self, each: OpenRealm) -> Sequence[IdSpan]:
        realm = each.realm
        count = self.engine.slots * _SPANS_A_SLOT
        is_worth_it = realm.backend.capabilities.splits_scans
        return realm.backend.split_rows(realm.name, count if is_worth_it else 1)

    def _filter(self, expected: int) -> FilterSize:
        return FilterSize(expected, self.config.filter_policy, self.config.filter_bytes // 2)

    def _bucket(self, rate: float | None) -> TokenBucket | None:
        return TokenBucket(self.clock, rate) if rate else None

    @contextmanager
    def _softly(self, realm: str) -> Iterator[None]:
        """Record a failure in one realm, and continue with the others."""
        try:
            yield
        except LeaseHeldError:
            raise
        except LakesweepError as error:
            self.tally.complain(f"realm {realm}: {error.message}")


@dataclass(frozen=True, slots=True)
class _Report:
    """Reports to the tally, and ends the scan when the run must stop."""

    realm: str
    tally: RunTally
    task: ProgressTask
    look: Callable[[], None]

    def page(self, span: IdSpan, page: ScanPage) -> None:
        self.tally.add_page(self.realm, span, page)
        self.task.advance(page.rows)
        self.look()

    def end(self, span: IdSpan) -> None:
        self.tally.end(self.realm, span)

    def fail(self, span: IdSpan, error: StoreError) -> None:
        del span
        self.tally.complain(f"realm {self.realm}: it was not scanned to the end: {error.message}")


def _page(rate: float | None) -> int:
    """A page size with which a rate limit is kept evenly."""
    return min(SCAN_ROWS, max(1, int(rate))) if rate else SCAN_ROWS


def _figures(marks: LiveFilters) -> LiveFilterFigures:
    both = (marks.references, marks.objects)
    return LiveFilterFigures(
        reference_fpp=marks.references.expected_fpp,
        object_fpp=marks.objects.expected_fpp,
        size_bytes=sum(each.size_bytes for each in both),
        filters=sum(len(each.filters) for each in both),
    )


@dataclass(frozen=True, slots=True)
class ReferenceScan:
    """Judges the references of a realm, and deletes unused ones if `deletes` is set.

    Only references that an identifier `owns` and does not retain are deleted.
    """

    realm: Realm
    marks: GrowingFilter
    cut_off_at: int
    owns: Callable[[str], bool]
    concurrent: ConcurrentCommits
    look: Callable[[], None]
    limit: TokenBucket | None
    page: int
    deletes: bool

    def run(self) -> MaintenanceStats:
        """Look at all of them."""
        stats = MaintenanceStats()
        for page in batches(self.realm.references.list(), min(self.page, _PAGE)):
            if self.limit is not None:
                self.limit.take(len(page))
            stats += self._handled(page)
        return stats

    def _handled(self, page: Sequence[Reference]) -> MaintenanceStats:
        is_newer = np.array([each.created_at > self.cut_off_at for each in page])
        stays = self.marks.contains(name_hashes(self.realm.name, [each.name for each in page]))
        stays |= np.array([not self.owns(each.name) for each in page])
        unwanted = [page[place] for place in np.flatnonzero(~stays & ~is_newer).tolist()]
        purged, failed = self._delete(unwanted) if self.deletes else (0, 0)
        return MaintenanceStats(
            scanned=len(page),
            retained=int(np.count_nonzero(stays & ~is_newer)),
            newer=int(np.count_nonzero(is_newer)),
            unreferenced=len(unwanted),
            purged=purged,
            failed=failed,
        )

    def _delete(self, unwanted: Sequence[Reference]) -> tuple[int, int]:
        purged = failed = 0
        # A commit since the marks were taken may have made one of them live again.
        if unwanted:
            self.concurrent.check()
        for reference in unwanted:
            self.look()
            try:
                # One that was moved since is not deleted.
                purged += self.realm.references.delete(reference)
            except StoreError:
                failed += 1
        return purged, failed
