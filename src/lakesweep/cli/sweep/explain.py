"""`lakesweep explain`: why a plan keeps or deletes a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import absolute_address
from lakesweep.cli.render.output import TextTable
from lakesweep.cli.sweep.show import PlanName
from lakesweep.units import format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.sweep.inspect.evidence import RootReference
    from lakesweep.sweep.inspect.verdict_explanation import Explanation

_SHOWN_REFERENCES = 10
_NAMES = ("path", "verdict", "reason", "rule", "size_bytes", "modified", "etag", "table")


def explain(
    context: Context,
    plan: PlanName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The address of a file.")],
) -> None:
    """Why a plan keeps or deletes a file, with the evidence.

    For a file that is referenced: by which roots, and through which files. For one that would go:
    what was looked at, and what would have kept it. A file that is not in the plan ends the command
    with code 6 and the reason.
    """
    from lakesweep.sweep.inspect import verdict_explanation
    from lakesweep.sweep.plan.document import PlanKind, check_kind
    from lakesweep.sweep.plan.stored_plan import open_plan

    found = open_plan(context.app.stores, context.app.runs, plan)
    check_kind(found.document, PlanKind.SWEEP)
    explanation = verdict_explanation.explain(found, absolute_address(path))
    document = {"plan": found.document.plan, **_document(explanation)}
    context.output.result(document, _table(found.document.plan, explanation))


def _document(explanation: Explanation) -> dict[str, Any]:
    return {
        **{name: explanation.row[name] for name in _NAMES},
        "references": [_reference(each) for each in explanation.references],
        "evidence": list(explanation.evidence),
        "would_be_kept_by": list(explanation.would_be_kept_by),
    }


def _reference(reference: RootReference) -> dict[str, Any]:
    return {
        "root": reference.root.name,
        "root_kind": reference.root.kind,
        "kind": reference.kind,
        "path": reference.path,
        "through": list(reference.through),
    }


def _table(plan: str, explanation: Explanation) -> TextTable:
    row = explanation.row
    rows = [
        ("file", row["path"]),
        ("verdict", row["verdict"]),
        ("reason", f"{row['reason']} ({row['rule']})" if row["rule"] else row["reason"]),
        ("size", "-" if row["size_bytes"] is None else format_size(row["size_bytes"])),
        ("written", "-" if row["modified"] is None else format_moment(row["modified"])),
        *_listed("because", explanation.evidence),
        *_ways(explanation),
        *_listed("would be kept by", explanation.would_be_kept_by),
    ]
    return TextTable(("plan", plan), rows)


def _listed(name: str, texts: Any) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield ("" if number else name), text


def _ways(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """By which roots a file is kept, and the way from each to the file."""
    for each in explanation.references[:_SHOWN_REFERENCES]:
        yield "kept by", f"{each.root.name}, as {each.kind}"
        yield from _listed("through", each.through)
    more = len(explanation.references) - _SHOWN_REFERENCES
    if more > 0:
        yield "", f"and {more:,} more roots; --json shows them all"
