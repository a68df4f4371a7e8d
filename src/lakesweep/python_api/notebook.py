"""Results as HTML tables, for notebooks. File names are foreign text and are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lakesweep.untrusted.text import printable


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
