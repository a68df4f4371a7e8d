"""What callers pass and get: times and consent as they are written, and streams of rows.

What grows with the number of files is a stream. In notebooks it is shown as an HTML table; file
names are foreign text and are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, TypeAlias

import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError, UsageError
from lakesweep.units import parse_duration, parse_moment
from lakesweep.untrusted.text import printable

_SHOWN_ROWS = 20
#: A duration as an object or as text: `90s`, `15m`, `6h`, `7d`.
DurationLike: TypeAlias = timedelta | str
#: A point in time as an object with a zone, as RFC 3339 text, or as a duration ago.
MomentLike: TypeAlias = datetime | timedelta | str


class RowStream:
    """Rows as Arrow batches. Each iteration reads them again, in bounded memory.

    `to_arrow` and `to_pandas` hold all rows in memory; use `batches` for millions of files.
    """

    def __init__(self, read: Callable[[], Iterator[pa.RecordBatch]], schema: pa.Schema) -> None:
        self._read = read
        self.schema = schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return self._read()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._read():
            yield from batch.to_pylist()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader that DuckDB, Polars and other Arrow libraries take."""
        return pa.RecordBatchReader.from_batches(self.schema, self._read())

    def to_arrow(self) -> pa.Table:
        """All rows as one table."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def head(self, rows: int = _SHOWN_ROWS) -> pa.Table:
        """The first rows."""
        taken: list[pa.RecordBatch] = []
        left = rows
        for batch in self._read():
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(taken, self.schema)

    def count(self) -> int:
        """How many rows there are; reads them all."""
        return sum(batch.num_rows for batch in self._read())

    def __repr__(self) -> str:
        return f"RowStream({', '.join(self.schema.names)})"

    def _repr_html_(self) -> str:

        shown = self.head()
        return html_table(shown.column_names, [list(row.values()) for row in shown.to_pylist()])


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with one header row."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(facts: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    rows = "".join(f"<tr><th>{_text(name)}</th>{_cell(value)}</tr>" for name, value in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    return escape(printable(text))


def to_duration(value: DurationLike | None) -> timedelta | None:
    """A duration; None stays None."""
    return parse_duration(value) if isinstance(value, str) else value


def to_moment(value: MomentLike | None, clock: Clock) -> datetime | None:
    """A point in time, never in the future; None stays None."""
    now = clock.now()
    if isinstance(value, str):
        return parse_moment(value, now)
    if isinstance(value, timedelta):
        value = now - value
    if value is not None and (value.tzinfo is None or value > now):
        raise UsageError(f"{value} has no zone or is in the future", hint="use an aware UTC time")
    return value


def consent(confirm: Callable[[Any], None] | None, *, yes: bool) -> Callable[[Any], None]:
    """Turn `yes` and `confirm` into what an operation asks before it deletes.

    Without either, nothing is deleted: a call in a notebook must not delete by accident.
    """
    if confirm is not None:
        return confirm
    return _agree if yes else _refuse


def _agree(preview: object) -> None:
    """The caller has agreed beforehand."""
    del preview


def _refuse(preview: object) -> None:
    raise RefusedError(
        "confirmation",
        f"not confirmed; nothing was deleted: {preview}",
        hint="pass yes=True, or confirm=a function that looks at the preview",
    )
