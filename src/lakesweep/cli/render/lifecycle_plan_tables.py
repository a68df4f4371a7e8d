"""Tables for lifecycle plans only: the policy, savings by rule and prefix, and refs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from msgspec import UnsetType

    from lakesweep.lifecycle.plan.savings import RefSize, SavedFiles
    from lakesweep.sweep.plan.document import PlanDocument

_NUMBERS = frozenset(
    {"to delete", "bytes to delete", "to keep", "objects", "size", "own ranges", "days"}
)
_SHOWN = 20
#: A branch or tag that has not moved for this long is stale.
_STALE_DAYS = 90


def lifecycle_facts_table(document: PlanDocument, state: str) -> TextTable:
    """The repository and policy of a plan, when it was made, and what it read."""
    details, spec = document.details, document.spec
    commits = format_count(spec["commits"], "commit")
    checked = format_count(spec["potential_commits"], "commit")
    parsed = spec["ranges_parsed"]
    rows = [
        ("repository", details["repository"]),
        ("namespace", details["namespace"]),
        ("state", state),
        ("made", format_moment(document.created.replace(microsecond=0))),
        ("expires", format_moment(document.expires.replace(microsecond=0))),
        *((("policy" if not number else ""), line) for number, line in enumerate(details["words"])),
        ("commits", f"{commits}; {checked} checked for expired objects{_why(details['full'])}"),
        ("ranges", f"{spec['ranges']:,}, {parsed:,} of them read for the first time"),
        ("stored", format_count(spec["listed"], "object")),
        *_heads(details.get("heads")),
    ]
    return TextTable(("plan", document.plan), rows)


def _heads(held: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Paths that are removed from branches first."""
    if held and held["files"]:
        paths, waits = format_count(held["paths"], "path"), format_count(held["files"], "object")
        yield "HEADs", f"{paths} to remove from branches first; {waits} wait for the next run"


def _why(full: str | None) -> str:
    return f": {full}" if full else ""


def savings_tables(document: PlanDocument) -> Iterator[TextTable]:
    """Savings by rule, prefix and ref; the largest refs; objects that only stale refs hold."""
    from lakesweep.lifecycle.plan.document import lifecycle_details

    details = lifecycle_details(document)
    yield from _saved("rule", ((each.rule, each) for each in details.saved.rule))
    yield from _saved("prefix", ((each.prefix, each) for each in details.saved.prefix))
    yield from _saved("kept longest by", ((each.holder, each) for each in details.saved.holder))
    yield from _refs("ref", details.refs[:_SHOWN])
    stale = [each for each in details.refs if each.days >= _STALE_DAYS]
    pinning = sorted(
        (each for each in stale if each.own_range_bytes), key=lambda each: -each.own_range_bytes
    )
    yield from _refs(f"stale for {_STALE_DAYS} days", pinning[:_SHOWN])


def _saved(title: str, lines: Iterable[tuple[str | UnsetType, SavedFiles]]) -> Iterator[TextTable]:
    rows = [
        (
            str(name or "(all paths)"),
            f"{each.delete.files:,}",
            format_size(each.delete.bytes),
            f"{each.keep.files:,}",
        )
        for name, each in lines
    ]
    if rows:
        titles = (title, "to delete", "bytes to delete", "to keep")
        yield TextTable(titles, _few(rows), numbers=_NUMBERS)


def _refs(title: str, lines: Iterable[RefSize]) -> Iterator[TextTable]:
    rows = [
        (
            f"{each.kind} {each.name}",
            f"{each.objects:,}",
            format_size(each.bytes),
            format_size(each.own_range_bytes),
            f"{each.days:,}",
        )
        for each in lines
    ]
    if rows:
        yield TextTable((title, "objects", "size", "own ranges", "days"), rows, numbers=_NUMBERS)


def _few(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    more = len(rows) - _SHOWN
    return [*rows[:_SHOWN], (f"and {more:,} more", "", "", "")] if more > 0 else rows
