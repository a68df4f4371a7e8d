"""Where rows are scanned: in this process, or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lakesweep.errors import StoreError
from lakesweep.maintenance.scanning import Page, RowScan
from lakesweep.parallel import map_ordered
from lakesweep.store.backend import IdSpan


class Report(Protocol):
    """Is told how far scans are. Threads may call it at once; whatever it raises ends the scan."""

    def page(self, span: IdSpan, page: Page) -> None:
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

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: Report) -> None:
        """Scan all spans. What fails in one does not keep others from being scanned."""
        ...


@dataclass(frozen=True, slots=True)
class LocalScan:
    """Scans on threads of this process, as many as there are workers if they have to wait.

    Rows that come without waiting are scanned on one: threads would only take turns.
    """

    workers: int

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: Report) -> None:
        workers = self.workers if scan.backend.capabilities.scans_wait else 1
        for _ in map_ordered(partial(_scan_one, scan, report), spans, workers=workers):
            pass


def _scan_one(scan: RowScan, report: Report, span: IdSpan) -> None:
    try:
        for page in scan.pages(span):
            report.page(span, page)
    except StoreError as error:
        report.fail(span, error)
    else:
        report.end(span)
