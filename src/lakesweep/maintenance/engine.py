"""Where a maintenance run does its work: on threads of this process, or in other processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lakesweep.errors import StoreError
from lakesweep.maintenance.row_scan import RowScan, ScanPage
from lakesweep.parallel import map_ordered
from lakesweep.store import Realm
from lakesweep.store.backends.rows import IdSpan
from lakesweep.store.realms.link_reader import LinkReader, LocalLinks


class ScanReport(Protocol):
    """Is told how far scans are. Threads may call it at once; whatever it raises ends the scan."""

    def page(self, span: IdSpan, page: ScanPage) -> None:
        """Some rows of a span were scanned."""
        ...

    def end(self, span: IdSpan) -> None:
        """A span was scanned to its end."""
        ...

    def fail(self, span: IdSpan, error: StoreError) -> None:
        """The rest of a span could not be scanned."""
        ...


class MaintenanceEngine(Protocol):
    """Reads the objects of a realm and scans its rows, in `slots` places at once.

    All engines find the same objects, give each row the same verdict and count alike.
    """

    @property
    def slots(self) -> int: ...

    def links(self, realm: Realm, types: Collection[str]) -> LinkReader:
        """A reader of objects for their links, with the payloads of these types."""
        ...

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        """Scan all spans. What fails in one does not keep others from being scanned."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Works on threads of this process, as many as `slots` if they have to wait for a server.

    Rows that come without waiting are scanned on one: threads would only take turns.
    """

    slots: int

    def links(self, realm: Realm, types: Collection[str]) -> LinkReader:
        return LocalLinks(realm, types)

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        workers = self.slots if scan.backend.capabilities.scans_wait else 1
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
