"""`lakesweep lifecycle explain`: which commits, refs and rules keep or expire an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.show import LifecyclePlan, open_lifecycle_plan
from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.lifecycle.inspect.explanation import ObjectExplanation

_SHOWN_ROWS = 50
_SHORT = 12
_ROW = ("path", "verdict", "reason", "rule", "size_bytes", "modified")
_EVIDENCE = (
    "path",
    "commit_id",
    "created",
    "ref_kind",
    "ref",
    "rule",
    "before",
    "age",
    "keeps",
    "why",
)


def explain(
    context: Context,
    plan: LifecyclePlan,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The address of an object, its key such as data/…, or a path of the repository.",
        ),
    ],
) -> None:
    """Every commit, path, branch, tag and rule that keeps an object or lets it go, with dates.

    A path of the repository stands for all objects that it ever had, one after the other. What a
    plan does not know ends the command with code 6.
    """
    from lakesweep.lifecycle.inspect.explanation import ObjectExplainer

    found = open_lifecycle_plan(context, plan)
    explanations = list(ObjectExplainer(found).explain(path))
    name = found.document.plan
    document = {"plan": name, "objects": [_document(each) for each in explanations]}
    context.output.result(document, *(table for each in explanations for table in _tables(each)))


def _document(each: ObjectExplanation) -> dict[str, Any]:
    return {
        "address": each.address,
        "stored": each.row is not None,
        **({} if each.row is None else {name: each.row[name] for name in _ROW}),
        "evidence": [{name: row[name] for name in _EVIDENCE} for row in each.evidence],
    }


def _tables(each: ObjectExplanation) -> Iterator[TextTable]:
    yield TextTable(("object", each.address), list(_facts(each)))
    rows = [_line(row) for row in each.evidence[:_SHOWN_ROWS]]
    more = len(each.evidence) - len(rows)
    rows += [(f"and {more:,} more; --json shows them all", "", "", "", "")] if more > 0 else []
    if rows:
        yield TextTable(("", "path", "in", "held by", "because"), rows)


def _facts(each: ObjectExplanation) -> Iterator[tuple[str, str]]:
    row = each.row
    if row is None:
        yield "stored", "no: it was not there when the plan was made"
        return
    yield "file", row["path"]
    yield "verdict", row["verdict"]
    yield "reason", f"{row['reason']} ({row['rule']})" if row["rule"] else row["reason"]
    yield "size", "-" if row["size_bytes"] is None else format_size(row["size_bytes"])
    yield "written", "-" if row["modified"] is None else format_moment(row["modified"])


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    ref = " ".join(filter(None, (row["ref_kind"], row["ref"])))
    commit = "staging" if row["commit_id"] is None else f"commit {row['commit_id'][:_SHORT]}"
    return "keeps" if row["keeps"] else "lets go", row["path"], commit, ref, _why(row)


def _why(row: Mapping[str, Any]) -> str:
    if row["before"] is None:
        return f"{row['why']} ({row['rule']})" if row["rule"] else row["why"]
    age = "of unknown age" if row["age"] is None else f"of {row['age']:%Y-%m-%d}"
    sign = "not before" if row["keeps"] else "before"
    return f"{row['rule']}: {age}, {sign} {row['before']:%Y-%m-%d}"
