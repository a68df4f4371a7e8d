"""Tables that `plan` and `show` print: facts, totals, breakdowns, warnings and guards.

Plans of lakes and of repositories differ in their facts; those of repositories also have savings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.expiry_tables import expiry_tables
from lakesweep.cli.render.lifecycle_plan_tables import lifecycle_facts_table, savings_tables
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.render.upkeep_tables import details_tables
from lakesweep.guard_names import GuardName
from lakesweep.sweep.judge.totals import NO_FILES, FileTotals, TableTotals, VerdictTotals
from lakesweep.sweep.paths.folder_map import FolderOverlap
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, UnlistedTable
from lakesweep.sweep.plan.stored_plan import PlanState
from lakesweep.sweep.verdicts import Reason
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.plan_view import PlanView
    from lakesweep.sweep.guards import Guard

_NUMBERS = frozenset({"files", "size", "to delete", "to keep", "bytes to delete", "share"})
_SHOWN_TABLES = 20
_SHOWN_OVERLAPS = 5
_SHOWN_ROOTS = 20
_BITS_IN_A_BYTE = 8

_PHASES = ("list", "mark", "judge")

#: How files were matched with the references.
_MODES = {"exact": "exactly, by hash", "bloom": "by a Bloom filter"}


def new_plan_tables(document: PlanDocument) -> Iterator[TextTable]:
    """A plan that was just made."""
    yield facts_table(document, PlanState.READY)
    yield totals_table(document)
    yield from _savings(document)
    yield from warnings_tables(document)


def stored_plan_tables(view: PlanView) -> Iterator[TextTable]:
    """A stored plan, with all its breakdowns."""
    yield facts_table(view, f"{view.state} by {view.run}" if view.run else view.state)
    yield totals_table(view)
    if view.kind is PlanKind.EXPIRY:
        yield from _upkeep_tables(view)
        yield from warnings_tables(view)
        return
    yield from _savings(view)
    yield from breakdown_tables(view)
    yield from warnings_tables(view)


def _upkeep_tables(document: PlanDocument) -> Iterable[TextTable]:
    from lakesweep.operations.upkeep.expiry_plans import details_of
    from lakesweep.operations.upkeep.upkeep_plans import upkeep_details

    details = upkeep_details(document)
    return expiry_tables(details_of(document).found) if details is None else details_tables(details)


def _savings(document: PlanDocument) -> Iterator[TextTable]:
    return savings_tables(document) if document.kind is PlanKind.LIFECYCLE else iter(())


def facts_table(document: PlanDocument, state: str) -> TextTable:
    """What a plan is of, when it was made, and how."""
    if document.kind is PlanKind.LIFECYCLE:
        return lifecycle_facts_table(document, state)
    if document.kind is PlanKind.EXPIRY:
        return _upkeep_facts_table(document, state)
    return _sweep_facts_table(document, state)


def _sweep_facts_table(document: PlanDocument, state: str) -> TextTable:
    spec = document.spec
    rows = [
        ("lake", document.lake),
        ("state", state),
        ("made", _second(document.created)),
        ("expires", _second(document.expires)),
        ("cut-off", f"{_second(document.cut_off)}; newer files are kept"),
        ("roots", _roots(document)),
        ("stored", f"{format_count(spec.get('listed', 0), 'file')}{_source(spec)}"),
        ("referenced", _live(spec)),
        ("matched", _matched(document)),
        ("took", _took(document.seconds)),
    ]
    return TextTable(("plan", document.plan), rows)


def _upkeep_facts_table(document: PlanDocument, state: str) -> TextTable:
    details, found = document.details, document.details["found"]
    rows = [
        ("table", details["table"]),
        ("state", state),
        ("made", _second(document.created)),
        ("expires", _second(document.expires)),
        ("metadata", details["metadata"]),
    ]
    if "task" in details:
        rows.append(("task", details["task"]))
    else:
        rows.append(("to expire", format_count(len(found["expired_snapshots"]), "snapshot")))
        rows.append(("to keep", format_count(len(found["retained_snapshots"]), "snapshot")))
    return TextTable(("plan", document.plan), rows)


def totals_table(document: PlanDocument) -> TextTable:
    """Files and bytes by verdict and reason; deletes come first."""
    rows = [
        (verdict, reason, *_amount(amount))
        for verdict in ("delete", "keep")
        for reason, amount in _in_order(document.totals.get(verdict, {}))
    ]
    return TextTable(("verdict", "reason", "files", "size"), rows, numbers=_NUMBERS)


def warnings_tables(document: PlanDocument) -> Iterator[TextTable]:
    """What needs attention: roots, overlaps, tables that no catalog lists, guards."""
    if document.incomplete_roots:
        rows = [(root.name, root.reason) for root in document.incomplete_roots[:_SHOWN_ROOTS]]
        more = document.roots.incomplete - len(rows)
        rows += [("", f"and {more:,} more")] if more > 0 else []
        yield TextTable(
            ("incomplete root", "why; everything it might reference is kept"),
            rows,
        )
    if document.gone_roots:
        yield _gone(document)
    if document.empty_catalogs:
        rows = [(each.origin, each.reason) for each in document.empty_catalogs]
        yield TextTable(("lists no table at all", "possible cause"), rows)
    if document.unlisted:
        rows = [(each.pointer, unlisted_fate(each)) for each in document.unlisted[:_SHOWN_ROOTS]]
        more = len(document.unlisted) - len(rows)
        rows += [(f"and {more:,} more", "")] if more else []
        yield TextTable(("table that no catalog lists", ""), rows)
    if document.foreign:
        rows = [(each.folder, each.format) for each in document.foreign[:_SHOWN_ROOTS]]
        more = len(document.foreign) - len(rows)
        rows += [(f"and {more:,} more", "")] if more else []
        yield TextTable(("folder that no root reads", "kept as a"), rows)
    if document.overlaps:
        yield _overlaps(document)
    if document.guards:
        rows = [(guard.name, guard.message + _fate(document, guard)) for guard in document.guards]
        yield TextTable(("guard", "fails because"), rows)
    if document.accepted:
        rows = [
            (f"{each.guard} {each.subject}", f"until {each.until}: {each.reason}")
            for each in document.accepted
        ]
        yield TextTable(("accepted", "by the configuration"), rows)


def unlisted_fate(table: UnlistedTable) -> str:
    """What becomes of a table that no catalog lists."""
    if not table.kept:
        return "not kept"
    if not table.files:
        return "kept"
    return f"kept: {format_count(table.files, 'file')}, {format_size(table.bytes)}"


def _fate(document: PlanDocument, guard: Guard) -> str:
    """What follows from a guard that fails, if it does not refuse the apply."""
    if guard.name in document.overridden:
        return " (overridden)"
    if guard.name == GuardName.UNLISTED_TABLE:
        return ""  # its files have a verdict of their own
    return " (only these files are withheld)" if guard.subjects else ""


def breakdown_tables(document: PlanDocument) -> Iterator[TextTable]:
    """Deletes by probable cause, and all files by table, age and size."""
    if document.guesses:
        rows = [(guess, *_amount(amount)) for guess, amount in document.guesses.items()]
        yield TextTable(("to delete, probable cause", "files", "size"), rows, numbers=_NUMBERS)
    if document.tables:
        yield _by("table", map(_named_table, _top(document.tables)))
    yield _by("age", ((each.name, each) for each in document.ages))
    yield _by("size class", ((each.name, each) for each in document.sizes))


def summary(document: PlanDocument) -> str:
    """A plan in one line."""
    goes, stays = (_words(document.amount(verdict)) for verdict in ("delete", "keep"))
    return f"{document.plan}: {goes} to delete; {stays} to keep"


def _by(name: str, rows: Iterable[tuple[str, VerdictTotals]]) -> TextTable:
    cells = [
        (
            label,
            f"{each.delete.files:,}",
            format_size(each.delete.bytes),
            f"{each.keep.files:,}",
        )
        for label, each in rows
    ]
    return TextTable((name, "to delete", "bytes to delete", "to keep"), cells, numbers=_NUMBERS)


def _top(tables: Iterable[TableTotals]) -> list[TableTotals]:
    """The tables with the most to delete, and the rest in one row."""
    every = list(tables)
    if len(every) <= _SHOWN_TABLES:
        return every
    rest = every[_SHOWN_TABLES:]
    keep = sum((each.keep for each in rest), start=NO_FILES)
    delete = sum((each.delete for each in rest), start=NO_FILES)
    return [*every[:_SHOWN_TABLES], TableTotals(others=True, keep=keep, delete=delete)]


def _named_table(each: TableTotals) -> tuple[str, VerdictTotals]:
    return "(others)" if each.is_rest else each.name or "(in no table's folder)", each


def _gone(document: PlanDocument) -> TextTable:
    rows = [
        (each.name, _second(each.seen), f"{each.deletes:,}")
        for each in document.gone_roots[:_SHOWN_ROOTS]
    ]
    more = len(document.gone_roots) - len(rows)
    rows += [(f"and {more:,} more", "", "")] if more else []
    titles = ("root that is no longer listed", "last seen", "to delete")
    return TextTable(titles, rows, numbers=_NUMBERS)


def _overlaps(document: PlanDocument) -> TextTable:
    rows = [
        (each.folder, ", ".join(each.names), _outer(each))
        for each in document.overlaps[:_SHOWN_OVERLAPS]
    ]
    more = len(document.overlaps) - len(rows)
    rows += [(f"and {more:,} more", "", "")] if more else []
    return TextTable(("folders that tables share", "used by", "lies in"), rows)


def _outer(overlap: FolderOverlap) -> str:
    return f"{overlap.outer} of {', '.join(overlap.outer_names)}" if overlap.outer else ""


def _roots(document: PlanDocument) -> str:
    counts = document.roots
    parts = [f"{counts.complete:,} complete"]
    parts += [f"{counts.incomplete:,} incomplete"] if counts.incomplete else []
    parts += [f"{counts.absent:,} dropped meanwhile"] if counts.absent else []
    parts += [f"{counts.gone:,} no longer listed"] if counts.gone else []
    return ", ".join(parts)


def _source(spec: Mapping[str, Any]) -> str:
    if not spec.get("inventory"):
        return ""
    return f", by {spec['inventory']} of {spec['inventory_time']}"


def _live(spec: Mapping[str, Any]) -> str:
    manifests = format_count(spec.get("manifests", 0), "manifest")
    reused = spec.get("manifests_reused", 0)
    saved = f", {reused:,} of them from the cache" if reused else ""
    return f"{format_count(spec.get('live', 0), 'name')} in {manifests}{saved}"


def _matched(document: PlanDocument) -> str:
    words = _MODES.get(document.mode, document.mode)
    figures = document.filter
    if not figures:
        return words
    size = format_size(figures["bits"] // _BITS_IN_A_BYTE)
    return f"{words} of {size}; false positive rate {figures['expected_fpp']:.0e}"


def _in_order(amounts: Mapping[str, FileTotals]) -> list[tuple[str, FileTotals]]:
    """Reasons in the order in which they are checked."""
    order = list(Reason)
    return sorted(amounts.items(), key=lambda each: order.index(Reason(each[0])))


def _took(seconds: Mapping[str, float]) -> str:
    known = [name for name in _PHASES if name in seconds]
    return ", ".join(f"{name} {seconds[name]:.1f} s" for name in known)


def _words(amount: FileTotals) -> str:
    return f"{format_count(amount.files, 'file')}, {format_size(amount.bytes)}"


def _amount(amount: FileTotals) -> tuple[str, str]:
    return f"{amount.files:,}", format_size(amount.bytes)


def _second(moment: datetime) -> str:
    return format_moment(moment.replace(microsecond=0))
