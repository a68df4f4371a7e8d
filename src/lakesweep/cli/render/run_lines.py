"""Runs as lines and tables: sweeps, lifecycle runs and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_count, format_moment

if TYPE_CHECKING:
    from lakesweep.maintenance.run_records import MaintenanceStats
    from lakesweep.operations.store import MaintenanceView
    from lakesweep.runs.records import RunRecord


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run; `finished` is None while it runs, and where nobody has seen it end."""

    run: str
    lake: str
    kind: str
    status: str
    started: datetime
    finished: datetime | None
    seconds: float | None
    plan: str | None
    message: str
    spec: Mapping[str, Any]
    figures: Mapping[str, Any]

    @classmethod
    def of(cls, record: RunRecord) -> RunLine:
        from lakesweep.timestamps import moment

        started = moment(record.started_at)
        finished = None if record.finished_at is None else moment(record.finished_at)
        return cls(
            run=record.run,
            lake=record.lake,
            kind=record.kind.value,
            status=record.status.value,
            started=started,
            finished=finished,
            seconds=None if finished is None else (finished - started).total_seconds(),
            plan=record.plan or record.figures.get("plan"),
            message=record.message,
            spec=record.spec,
            figures=record.figures,
        )

    def text(self) -> str:
        """The run in one line."""
        started = format_moment(self.started.replace(microsecond=0))
        words = [f"{self.run:<32}", f"{self.status:<10}", started, f"{self._took():>9}", self.lake]
        return "  ".join([*words, *([self.message] if self.message else [])])

    def table(self) -> TextTable:
        """The run in full."""
        rows = [
            ("lake", self.lake),
            ("kind", self.kind),
            ("status", self.status),
            ("started", format_moment(self.started)),
            ("took", self._took()),
            ("plan", self.plan or "-"),
            *((("message", self.message),) if self.message else ()),
            *_flat("asked for", self.spec),
            *_flat("found", self.figures),
        ]
        return TextTable(("run", self.run), rows)

    def _took(self) -> str:
        return "-" if self.seconds is None else f"{self.seconds:,.1f} s"


def _flat(title: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Figures one a row, those inside others with the name of these before them."""
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
    """One run of maintenance."""

    info: MaintenanceView

    def table(self) -> TextTable:
        """What was found, by realm and type."""
        return TextTable(("realm", "of", *_COUNTS), list(self._rows()), numbers=frozenset(_COUNTS))

    def words(self) -> str:
        """The run in a few words."""
        info = self.info
        when = format_moment(info.started.replace(microsecond=0))
        purged = info.obj_stats.purged + info.reference_stats.purged
        return f"{info.run} is {info.status}, {when}: {format_count(purged, 'row')} purged"

    def run_line(self) -> RunLine:
        """The run among others, with its totals."""
        from msgspec.structs import asdict

        info, finished = self.info, self.info.finished
        totals = {"references": info.reference_stats, "rows": info.obj_stats}
        return RunLine(
            run=info.run,
            lake="-",
            kind="maintain",
            status=info.status.value,
            started=info.started,
            finished=finished,
            seconds=None if finished is None else (finished - info.started).total_seconds(),
            plan=None,
            message=info.status_message,
            spec={},
            figures={name: asdict(stats) for name, stats in totals.items()},
        )

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
