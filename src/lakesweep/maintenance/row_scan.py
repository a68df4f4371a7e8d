"""Scan the rows of one realm, several ranges of ids at a time, on threads of this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lakesweep.clock import Clock
from lakesweep.errors import StoreError, UnreachableError
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits
from lakesweep.maintenance.row_deletion import TRIES, RowDeleter, orphan_parts
from lakesweep.maintenance.row_verdicts import JudgedRows, RowRules, RowVerdict, judge_rows
from lakesweep.maintenance.run_records import MaintenanceStats
from lakesweep.parallel import map_ordered
from lakesweep.storage.wrappers.rate_limit import TokenBucket
from lakesweep.store.backends.backend import SCAN_ROWS, Backend
from lakesweep.store.backends.rows import IdSpan, ObjectHead

_PAUSE_SECONDS = 1.0

TypeStats = Mapping[str, MaintenanceStats]


@dataclass(frozen=True, slots=True)
class ScanLease:
    """The lease of a run, for its tasks in other processes."""

    lease: int
    token: int


@dataclass(frozen=True, slots=True)
class ScanPage:
    """What one page of a scan found, and the ids that come behind it."""

    stats: TypeStats
    rows: int
    rest: IdSpan | None


@dataclass(frozen=True, slots=True)
class RowScan:
    """Judges all rows of spans of one realm, and deletes what nothing leads to.

    Without a deleter it only counts. `newcomers` are looked at for each page of which something is
    deleted, after it was read.
    """

    backend: Backend
    rules: RowRules
    clock: Clock
    newcomers: ConcurrentCommits
    deleter: RowDeleter | None = None
    limit: TokenBucket | None = None
    page_rows: int = SCAN_ROWS
    fence: ScanLease | None = None

    def pages(self, span: IdSpan) -> Iterator[ScanPage]:
        """The pages of a span. A database that does not answer is asked again from there on."""
        rest: IdSpan | None = span
        tries = TRIES
        while rest is not None:
            try:
                for page in self._pages(rest):
                    rest, tries = page.rest, TRIES
                    yield page
            except UnreachableError:
                tries -= 1
                if not tries:
                    raise
                self.clock.sleep(_PAUSE_SECONDS * 2 ** (TRIES - tries))
            else:
                rest = None

    def _pages(self, span: IdSpan) -> Iterator[ScanPage]:
        for page in self.backend.scan_pages(self.rules.realm, span, self.page_rows):
            if self.limit is not None:
                self.limit.take(len(page))
            judged = judge_rows(page, self.rules)
            last = int(page.ids[-1])
            rest = IdSpan(last + 1, span.last) if last < span.last else None
            yield ScanPage(self._handled(judged), len(page), rest)

    def _handled(self, judged: JudgedRows) -> TypeStats:
        stats = dict(judged.stats())
        orphans = orphan_parts(self.backend, self.rules.realm, judged)
        _move(stats, orphans)
        if self.deleter is not None:
            rubbish = _by_type([*judged.of(RowVerdict.UNREFERENCED), *orphans])
            if rubbish:
                self.newcomers.check()
            for name, heads in rubbish.items():
                deleted = self.deleter.delete(heads)
                stats[name] += MaintenanceStats(purged=deleted.purged, failed=deleted.failed)
        return stats


def _by_type(heads: Iterable[ObjectHead]) -> Mapping[str, Sequence[ObjectHead]]:
    found: defaultdict[str, list[ObjectHead]] = defaultdict(list)
    for head in heads:
        found[head.type].append(head)
    return found


def _move(stats: dict[str, MaintenanceStats], orphans: Iterable[ObjectHead]) -> None:
    for head in orphans:
        stats[head.type] += MaintenanceStats(retained=-1, unreferenced=1)


class ScanReport(Protocol):
    """Is told how far scans are. Threads may call it at once; whatever it raises ends the scan."""

    def page(self, span: IdSpan, page: ScanPage) -> None:
        """So much of a span was scanned."""
        ...

    def end(self, span: IdSpan) -> None:
        """A span was scanned to its end."""
        ...

    def fail(self, span: IdSpan, error: StoreError) -> None:
        """The rest of a span could not be scanned."""
        ...


class ScanEngine(Protocol):
    """Scans spans of a realm, several at once."""

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        """Scan all spans. What fails in one does not keep others from being scanned."""
        ...


@dataclass(frozen=True, slots=True)
class LocalScan:
    """Scans on threads of this process, as many as there are workers if they have to wait.

    Rows that come without waiting are scanned on one: threads would only take turns.
    """

    workers: int

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        workers = self.workers if scan.backend.capabilities.scans_wait else 1
        for _ in map_ordered(partial(_scan_one, scan, report), spans, workers=workers):
            pass


def _scan_one(scan: RowScan, report: ScanReport, span: IdSpan) -> None:
    try:
        for page in scan.pages(span):
            report.page(span, page)
    except StoreError as error:
        report.fail(span, error)
    else:
        report.end(span)
