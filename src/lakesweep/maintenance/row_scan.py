"""Scan the rows of one realm, and delete those that nothing leads to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.clock import Clock
from lakesweep.errors import UnreachableError
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits
from lakesweep.maintenance.row_verdicts import (
    TRIES,
    JudgedRows,
    RowDeleter,
    RowRules,
    RowVerdict,
    judge_rows,
    orphan_parts,
)
from lakesweep.maintenance.run_records import MaintenanceStats
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

    Without a deleter it only counts. `concurrent` are looked at for each page of which something is
    deleted, after it was read.
    """

    backend: Backend
    rules: RowRules
    clock: Clock
    concurrent: ConcurrentCommits
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
            unreferenced = _by_type([*judged.of(RowVerdict.UNREFERENCED), *orphans])
            if unreferenced:
                self.concurrent.check()
            for name, heads in unreferenced.items():
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
