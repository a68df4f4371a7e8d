"""Pages, and charts as HTML tables and SVG, without scripts or external resources.

Everything from outside, such as names of tables and folders, is escaped where it enters. The page
around gives colours to the classes `delete` and `keep`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from lakesweep.sweep.verdicts import Verdict
from lakesweep.untrusted.text import printable

_SHOWN_ROWS = 100

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="color-scheme" content="light dark"/>
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def render_page(title: str, body: Iterable[str]) -> str:
    """A whole page, of parts that are HTML."""
    return _PAGE.format(
        title=safe_text(title),
        style=resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8"),
        body="\n".join(body),
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart with its label and note. Texts are not HTML."""

    label: str
    value: int
    note: str
    colour: str = Verdict.DELETE.value


def bars_table(bars: Iterable[Bar]) -> str:
    """Rows with a bar each, the longest as long as the row."""
    rows = list(bars)
    if not rows:
        return '<p class="note">Nothing.</p>'
    most = max(1, *(bar.value for bar in rows))
    lines = (
        f"<tr><th>{safe_name(bar.label)}</th><td>{_svg_bar(bar, most)}</td>"
        f'<td class="note">{safe_text(bar.note)}</td></tr>'
        for bar in rows
    )
    return f'<table class="bars">{"".join(lines)}</table>'


def _svg_bar(bar: Bar, most: int) -> str:
    # A value above zero is always visible.
    width = max(100 * bar.value / most, 0.5 if bar.value else 0)
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{bar.colour}" width="{width:.2f}" height="10"/></svg>'
    )


def columns_chart(bars: Iterable[Bar]) -> str:
    """Columns side by side, in the order of the classes."""
    found = list(bars)
    if not any(bar.value for bar in found):
        return '<p class="note">Nothing.</p>'
    most = max(bar.value for bar in found)
    columns = "".join(_column(bar, 130 * place, most) for place, bar in enumerate(found))
    return (
        f'<div class="wide"><svg class="columns" viewBox="0 0 {130 * len(found)} 200">'
        f"{columns}</svg></div>"
    )


def _column(bar: Bar, left: int, most: int) -> str:
    height = max(130 * bar.value / most, 1 if bar.value else 0)
    middle, name, count = left + 65, *bar.label.split("\n")
    return (
        f'<rect class="{bar.colour}" x="{left + 25}" y="{150 - height:.2f}" width="80" '
        f'height="{height:.2f}"/>'
        f'<text x="{middle}" y="{142 - height:.2f}">{safe_text(bar.note)}</text>'
        f'<text x="{middle}" y="170">{safe_text(name)}</text>'
        f'<text class="soft" x="{middle}" y="188">{safe_text(count)}</text>'
    )


def tile(figure: str, note: str, colour: str = "") -> str:
    """One figure at the top of a page."""
    return f'<div class="{colour}"><b>{safe_text(figure)}</b><span>{safe_text(note)}</span></div>'


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; the first rows of many."""
    head = "".join(f"<th>{safe_text(title)}</th>" for title in titles)
    lines = "".join(
        f"<tr>{''.join(f'<td>{safe_name(cell)}</td>' for cell in row)}</tr>"
        for row in rows[:_SHOWN_ROWS]
    )
    more = len(rows) - _SHOWN_ROWS
    rest = f'<p class="note">and {more:,} more</p>' if more > 0 else ""
    top = f"<tr>{head}</tr>" if any(titles) else ""
    return f'<div class="wide"><table class="grid">{top}{lines}</table></div>{rest}'


def section(title: str, body: str) -> str:
    """A part of a page; the body is HTML."""
    return f"<section><h2>{safe_text(title)}</h2>{body}</section>"


def safe_text(text: str) -> str:
    """Text of which nothing is hidden: odd characters are shown by their code."""
    return escape(printable(text), quote=True)


def safe_name(text: str) -> str:
    """A name, which may be long, and is broken where the page ends."""
    return f"<span>{safe_text(text)}</span>"
