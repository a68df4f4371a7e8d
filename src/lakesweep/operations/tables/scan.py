"""Scan tables by their metadata: what they hold, share, lack and could free. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.config import IcebergScanRoot, LakefsRoot, PinnedRoot
from lakesweep.errors import UsageError
from lakesweep.operations.interaction import SILENT_IO, Interaction
from lakesweep.parallel import map_ordered
from lakesweep.storage.stores import Stores, with_access
from lakesweep.sweep.roots.iceberg import CatalogRoots
from lakesweep.sweep.roots.own_catalog import RealmRoots
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    RootKind,
    RootProblem,
    RootRow,
    RootSource,
    collect_roots,
)
from lakesweep.untrusted.limits import read_failure
from lakesweep.upkeep.scan.iceberg_figures import ICEBERG, iceberg_figures
from lakesweep.upkeep.scan.paimon_figures import PAIMON, paimon_figures
from lakesweep.upkeep.scan.scan_page import render_scan
from lakesweep.upkeep.scan.scan_result import ScanResult, shared_folders, totals_of
from lakesweep.upkeep.scan.table_figures import TableFigures, judged, unreadable

SMALL_FILE_BYTES = 32 * 2**20
#: Tables that are read at once; each of them holds its own files in memory while it is read.
_TABLES_AT_ONCE = 16
_FORMATS = {RootKind.ICEBERG_TABLE: ICEBERG, RootKind.PAIMON_TABLE: PAIMON}
#: Roots that hold no tables with metadata of their own, or that only a listing finds.
_NOT_SCANNED = (IcebergScanRoot, LakefsRoot, PinnedRoot)


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """All tables of a lake, or of one catalog. Data files below `small_bytes` count as small."""

    lake: str | None = None
    catalog: str | None = None
    small_bytes: int = SMALL_FILE_BYTES


def scan_tables(app: App, request: ScanRequest, io: Interaction = SILENT_IO) -> ScanResult:
    """Read the metadata of all tables, several at once. One that cannot be read stops no other."""
    now, problems = app.clock.now(), list[str]()
    look = partial(_figures, app.stores, request.small_bytes, now)
    found = []
    with io.progress.task("scanned", unit="tables") as task:
        for figures in map_ordered(
            look, _roots(app, request, problems, io), workers=_TABLES_AT_ONCE
        ):
            if figures is not None:
                found.append(figures)
            task.advance(1)
    shared = list(shared_folders(found))
    sharing = {name for each in shared for name in each.tables}
    tables = sorted(
        (judged(each, shares_folder=each.table in sharing) for each in found),
        key=lambda each: each.rank,
    )
    return ScanResult(
        subject=request.catalog or request.lake or "",
        scanned=now,
        small_bytes=request.small_bytes,
        totals=totals_of(tables),
        tables=tables,
        shared_folders=shared,
        problems=problems,
    )


def _roots(
    app: App, request: ScanRequest, problems: list[str], io: Interaction
) -> Iterator[RootRow | RootProblem]:
    for found in collect_roots(_sources(app, request, io)):
        match found:
            case EmptyRootSource():
                io.notify(f"{found.source}: {found.reason}")
            case RootProblem(name=None):
                problems.append(f"{found.source}: {found.reason}")
            case _:
                yield found


def _sources(app: App, request: ScanRequest, io: Interaction) -> list[RootSource]:
    if (request.lake is None) == (request.catalog is None):
        raise UsageError("name either a lake or a catalog", hint="lakesweep scan --catalog prod")
    if request.catalog is not None:
        return [_catalog(app, request.catalog)]
    lake = app.lake(request.lake or "")
    roots = tuple(each for each in lake.section.roots if not isinstance(each, _NOT_SCANNED))
    if len(roots) < len(lake.section.roots):
        io.notify("roots of the types iceberg-scan, lakefs and pinned are not scanned")
    section = lake.section.model_copy(update={"roots": roots})
    alone = replace(lake, section=section, roots_of_others=())
    return list(app.root_sources(app.stores, alone, lambda: iter(())))


def _catalog(app: App, name: str) -> RootSource:
    """A configured catalog, or one of a realm that a lake names."""
    if name not in app.iceberg.catalogs:
        for root in app.realm_roots:
            if name in {each.name for each in app.open_realm(root).every()}:
                return RealmRoots(partial(app.open_realm, root), root.realm, (name,))
    return CatalogRoots(name, app.iceberg.catalogs.get(name, {}), app.stores.load.catalog(name))


def _figures(
    stores: Stores, small_bytes: int, now: datetime, root: RootRow | RootProblem
) -> TableFigures | None:
    """The figures of one root; None for what is no table that has them."""
    format_ = _FORMATS.get(root.kind)
    if isinstance(root, RootProblem):
        return unreadable(str(root.name), format_ or root.kind.value, root.reason)
    if format_ is None:
        return None
    try:
        if root.kind is RootKind.PAIMON_TABLE:
            return paimon_figures(stores, root.locations[0], now=now, small_bytes=small_bytes)
        return iceberg_figures(
            with_access(stores, root.access),
            root.name,
            root.file,
            now_ms=millis(now),
            small_bytes=small_bytes,
        )
    except Exception as error:
        return unreadable(root.name, format_, read_failure(root.file, error).message)


def scan_page(result: ScanResult) -> str:
    """A scan as one HTML page."""
    return render_scan(result)
