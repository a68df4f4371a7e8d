"""Runs as lines and tables: sweeps, lifecycle runs and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_count, format_moment

if TYPE_CHECKING:
    from lakesweep.maintenance.run_records import MaintenanceStats
    from lakesweep.operations.lakes.runs import RunView
    from lakesweep.operations.store.store import MaintenanceView


def run_text(run: RunView) -> str:
    """A run in one line."""
    started = format_moment(run.started.replace(microsecond=0))
    words = [f"{run.run:<32}", f"{run.status:<10}", started, f"{_took(run):>9}", run.lake]
    return "  ".join([*words, *([run.message] if run.message else [])])


def run_table(run: RunView) -> TextTable:
    """A run in full."""
    rows = [
        ("lake", run.lake),
        ("kind", run.kind),
        ("status", run.status),
        ("started", format_moment(run.started)),
        ("took", _took(run)),
        ("plan", run.plan or "-"),
        *((("message", run.message),) if run.message else ()),
        *_flat("asked for", run.spec),
        *_flat("found", run.figures),
    ]
    return TextTable(("run", run.run), rows)


def _took(run: RunView) -> str:
    return "-" if run.seconds is None else f"{run.seconds:,.1f} s"


def _flat(title: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """One figure per row; nested figures are named after their group."""
    for name, value in values.items():
        if value is None or value in ({}, []):
            continue
        if isinstance(value, Mapping):
            yield from _flat(f"{title} {name}", value)
            continue
        shown = ", ".join(map(str, value)) if isinstance(value, list) else _number(value)
        yield f"{title} {name}", shown


def _number(value: object) -> str:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else str(value)


_COUNTS = ("scanned", "retained", "newer", "unreferenced", "purged", "failed")


@dataclass(frozen=True, slots=True)
class MaintenanceLine:
    """A maintenance run."""

    info: MaintenanceView

    def table(self) -> TextTable:
        """Counts by realm and type."""
        return TextTable(("realm", "of", *_COUNTS), list(self._rows()), numbers=frozenset(_COUNTS))

    def words(self) -> str:
        """The run in a few words."""
        info = self.info
        when = format_moment(info.started.replace(microsecond=0))
        purged = info.obj_stats.purged + info.reference_stats.purged
        return f"{info.run} is {info.status}, {when}: {format_count(purged, 'row')} purged"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        info = self.info
        realms = {**info.per_realm_reference_stats, **info.per_realm_per_obj_type_stats}
        for realm in sorted(realms):
            if realm in info.per_realm_reference_stats:
                yield realm, "references", *_cells(info.per_realm_reference_stats[realm])
            types = info.per_realm_per_obj_type_stats.get(realm, {})
            for name, stats in sorted(types.items()):
                yield realm, name, *_cells(stats)
        for realm, kinds in info.tidied.items():
            for kind, count in kinds.items():
                yield realm, f"stale {kind}", "", "", "", f"{count:,}", "", ""


def _cells(stats: MaintenanceStats) -> tuple[str, ...]:
    return tuple(f"{getattr(stats, name):,}" for name in _COUNTS)
