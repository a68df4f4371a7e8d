"""Templates, and how values become text: nothing from outside reaches a page unescaped.

Names of tables, keys and messages are hostile. Jinja escapes what HTML gives a meaning to, and
`printable` shows control and direction characters by their code; both happen to every value that a
template prints, so no template can forget them.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lakesweep.operations.lakes.live_runs import StageView
from lakesweep.operations.lakes.run_grid import RunGrid
from lakesweep.operations.upkeep.table_history import TableTimeline
from lakesweep.server.console.drawings import history_line, run_grid_table, stage_timeline
from lakesweep.server.console.view import encoded, link
from lakesweep.sweep.inspect.charts import Bar, bars_table, columns_chart
from lakesweep.units import format_count, format_duration, format_size
from lakesweep.untrusted.text import printable
from lakesweep.version import __version__

_SHOWN_ROWS = 200
_FILES = resources.files(__package__).joinpath("static")
#: Files of the console by name, with their types.
STATIC: Mapping[str, tuple[str, bytes]] = {
    name: (kind, _FILES.joinpath(name).read_bytes())
    for name, kind in {
        "console.css": "text/css; charset=utf-8",
        "console.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml",
    }.items()
}


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """A page or a part of one."""
    return _ENVIRONMENT.get_template(template).render(values).encode(errors="replace")


def _shown(value: Any) -> Any:
    """A value as it is printed; markup of our own stays."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) else printable(str(value))


def _exact(value: str) -> Markup:
    """A text for a field of a form, which must come back unchanged."""
    return Markup(escape(value))  # noqa: S704 - escaped here


def _when(moment: datetime | str | None) -> Markup:
    """A moment in UTC; the script of the page adds the viewer's own zone."""
    if moment is None:
        return Markup("-")
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    text = Markup('<time datetime="{}">{}</time>')
    return text.format(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%d %H:%M} UTC")


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else format_size(size_bytes)


def _count(count: int | None, noun: str = "file") -> str:
    return "-" if count is None else format_count(count, noun)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else str(timedelta(seconds=round(seconds)))


def _json(value: Any) -> str:
    """A value of a run's figures as a short text."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _bars(bars: Iterable[Bar]) -> Markup:
    return Markup(bars_table(bars))  # noqa: S704 - it escapes all texts


def _columns(bars: Iterable[Bar]) -> Markup:
    return Markup(columns_chart(bars))  # noqa: S704 - it escapes all texts


def _change(count: int, noun: str) -> str:
    """A difference of counts, with its sign."""
    sign = "+" if count > 0 else "-" if count < 0 else "±"
    return f"{sign}{format_count(abs(count), noun)}"


def _size_change(size_bytes: int) -> str:
    sign = "+" if size_bytes > 0 else "-" if size_bytes < 0 else "±"
    return f"{sign}{format_size(abs(size_bytes))}"


def _run_grid(grid: RunGrid) -> Markup:
    return Markup(run_grid_table(grid))  # noqa: S704 - it escapes all texts


def _timeline(stages: Iterable[StageView]) -> Markup:
    return Markup(stage_timeline(list(stages)))  # noqa: S704 - it escapes all texts


def _history(history: TableTimeline) -> Markup:
    return Markup(history_line(history))  # noqa: S704 - it escapes all texts


def _static(name: str) -> str:
    """The address of a file, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256(STATIC[name][1]).hexdigest()[:12]}"


def _integrity(name: str) -> str:
    """The hash with which a browser compares a script before it runs it."""
    digest = hashlib.sha384(STATIC[name][1]).digest()
    return f"sha384-{b64encode(digest).decode()}"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "when": _when,
        "size": _size,
        "count": _count,
        "seconds": _seconds,
        "json": _json,
        "exact": _exact,
        "quoted": encoded,
        "bars": _bars,
        "columns": _columns,
        "run_grid": _run_grid,
        "timeline": _timeline,
        "change": _change,
        "size_change": _size_change,
        "duration": format_duration,
        "history": _history,
        "first_rows": lambda rows: rows[:_SHOWN_ROWS],
    }
    made.globals |= {
        "link": link,
        "static": _static,
        "integrity": _integrity,
        "version": __version__,
    }
    return made


_ENVIRONMENT = _environment()
