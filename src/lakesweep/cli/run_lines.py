"""Runs as commands show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakesweep.cli.output import Table
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.sweep.records import RunRecord


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
        from lakesweep.store.moments import moment

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

    def table(self) -> Table:
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
        return Table(("run", self.run), rows)

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
