"""Render a plan as one HTML page, without scripts or external resources.

Everything from outside, such as names of tables and folders, is escaped where it enters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lakesweep.sweep.inspect.charts import (
    Bar,
    bars_table,
    columns_chart,
    grid,
    render_page,
    safe_name,
    safe_text,
    section,
    tile,
)
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.sweep.guards import Guard
    from lakesweep.sweep.judge.totals import ClassTotals, FileTotals, TableTotals
    from lakesweep.sweep.plan.document import PlanDocument, UnlistedTable

_SHOWN_TABLES = 20


def render_report(document: PlanDocument, state: str) -> str:
    """The page of a plan."""
    title = f"Lakesweep: plan of {document.lake}"
    return render_page(title, _body(document, state))


def _body(document: PlanDocument, state: str) -> Iterator[str]:
    yield _header(document, state)
    yield _share(document)
    yield _guards(document)
    yield section("Bytes by reason", bars_table(_by_reason(document)))
    yield section("To delete, by probable origin", bars_table(_by_guess(document)))
    yield section("To delete, by table", bars_table(_by_table(document)))
    yield section("To delete, by age", columns_chart(_by_class(document.ages)))
    yield section("To delete, by file size", columns_chart(_by_class(document.sizes)))
    yield _roots(document)
    yield _overlaps(document)
    yield _facts(document)


def _header(document: PlanDocument, state: str) -> str:
    goes, stays = document.amount(Verdict.DELETE), document.amount(Verdict.KEEP)
    until = safe_text(_minute(document.expires))
    tiles = (
        _tile("to delete", goes, Verdict.DELETE),
        _tile("to keep", stays, Verdict.KEEP),
        f"<div><b>{safe_text(state)}</b><span>until {until}</span></div>",
    )
    return (
        f"<header><h1>{safe_name(document.lake)}</h1><p>{safe_name(document.plan)}, "
        f"made {safe_text(_minute(document.created))}</p></header>\n"
        f'<div class="tiles">{"".join(tiles)}</div>'
    )


def _tile(what: str, amount: FileTotals, colour: str) -> str:
    note = f"{what}, {format_count(amount.files, 'file')}"
    return tile(format_size(amount.bytes), note, colour)


def _share(document: PlanDocument) -> str:
    """One bar for all bytes: to delete, and to keep."""
    goes, stays = document.amount(Verdict.DELETE).bytes, document.amount(Verdict.KEEP).bytes
    width = 1000 * goes / max(1, goes + stays)
    percent = f"{width / 10:.1f} % of all bytes would be deleted"
    return (
        f'<svg class="share" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" '
        f'aria-label="{safe_text(percent)}"><rect class="keep" width="1000" height="24"/>'
        f'<rect class="delete" width="{width:.2f}" height="24"/></svg>\n'
        f'<p class="note">{safe_text(percent)}</p>'
    )


def _guards(document: PlanDocument) -> str:
    if not document.guards:
        return section("Guards", '<p class="note">No guard refuses this plan.</p>')
    rows = (_guard(guard, guard.name in document.overridden) for guard in document.guards)
    return section("Guards that refuse this plan", f'<ul class="guards">{"".join(rows)}</ul>')


def _guard(guard: Guard, is_overridden: bool) -> str:
    given = " (overridden)" if is_overridden else ""
    return f"<li><b>{safe_text(guard.name)}</b>{given} {safe_name(guard.message)}</li>"


def _by_reason(document: PlanDocument) -> Iterator[Bar]:
    for reason in sorted(Reason, key=lambda reason: reason.verdict is Verdict.KEEP):
        verdict = reason.verdict.value
        amount = document.totals.get(verdict, {}).get(reason.value)
        if amount is not None:
            yield Bar(f"{verdict}: {reason}", amount.bytes, _amount(amount), verdict)


def _by_guess(document: PlanDocument) -> Iterator[Bar]:
    found = sorted(document.guesses.items(), key=lambda each: -each[1].bytes)
    return (Bar(guess, amount.bytes, _amount(amount)) for guess, amount in found)


def _by_table(document: PlanDocument) -> Iterator[Bar]:
    with_orphans = [each for each in document.tables if each.delete.files]
    for each in with_orphans[:_SHOWN_TABLES]:
        share = 100 * each.delete.bytes / max(1, each.delete.bytes + each.keep.bytes)
        note = f"{_amount(each.delete)}; {share:.0f} % of its bytes"
        yield Bar(table_name(each), each.delete.bytes, note)
    more = len(with_orphans) - _SHOWN_TABLES
    if more > 0:
        rest = sum(each.delete.bytes for each in with_orphans[_SHOWN_TABLES:])
        yield Bar(f"and {more:,} more", rest, format_size(rest))


def table_name(each: TableTotals) -> str:
    """What a row of tables is called on a page."""
    return "other tables" if each.is_rest else each.name or "outside of all tables"


def _by_class(classes: Iterable[ClassTotals]) -> Iterator[Bar]:
    for each in classes:
        label = f"{each.name}\n{format_count(each.delete.files, 'file')}"
        yield Bar(label, each.delete.bytes, format_size(each.delete.bytes))


def _roots(document: PlanDocument) -> str:
    counts = document.roots
    text = f"{counts.complete:,} complete, {counts.incomplete:,} incomplete"
    parts = [f'<p class="note">{safe_text(text)}</p>']
    if document.incomplete_roots:
        pairs = [(root.name, root.reason) for root in document.incomplete_roots]
        parts.append(grid(("could not be read", "why"), pairs))
    if document.gone_roots:
        gone = [
            (each.name, _minute(each.seen), f"{each.deletes:,}") for each in document.gone_roots
        ]
        parts.append(grid(("no longer listed", "last seen", "files to delete"), gone))
    if document.empty_catalogs:
        empty = [(each.origin, each.reason) for each in document.empty_catalogs]
        parts.append(grid(("lists no tables", "probable cause"), empty))
    if document.unlisted:
        found = [(each.pointer, _unlisted_fate(each)) for each in document.unlisted]
        parts.append(grid(("in no catalog", ""), found))
    if document.foreign:
        others = [(each.folder, each.format) for each in document.foreign]
        parts.append(grid(("kept: no root reads this format", "format"), others))
    return section("Roots", "".join(parts))


def _unlisted_fate(table: UnlistedTable) -> str:
    if not table.kept:
        return "not kept"
    files = f"{format_size(table.bytes)}, {format_count(table.files, 'file')}"
    return f"kept: {files}" if table.files else "kept"


def _overlaps(document: PlanDocument) -> str:
    if not document.overlaps:
        return ""
    rows = [(each.folder, ", ".join(each.names), each.outer or "") for each in document.overlaps]
    return section("Folders that tables share", grid(("folder", "used by", "inside"), rows))


def _facts(document: PlanDocument) -> str:
    seconds = ", ".join(f"{name} {took:.1f} s" for name, took in document.seconds.items())
    facts = {
        "locations": ", ".join(document.locations),
        "cut-off": format_moment(document.cut_off),
        "matched": document.mode,
        **{name: "" if value is None else str(value) for name, value in document.spec.items()},
        **{f"filter {name}": str(value) for name, value in document.filter.items()},
        "took": seconds,
    }
    rows = [(name, value) for name, value in facts.items() if value]
    return section("Details", grid(("", ""), rows))


def _amount(amount: FileTotals) -> str:
    return f"{format_size(amount.bytes)}, {format_count(amount.files, 'file')}"


def _minute(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
