"""Tables that both `explain` commands print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.explain import (
        ExplainedObject,
        FileExplanation,
        ObjectEvidence,
        ObjectExplanations,
    )

_SHOWN_REFERENCES = 10
_SHOWN_ROWS = 50
_SHORT_ID = 12
_NOT_STORED = "no; it was not there when the plan was made"


def file_table(explanation: FileExplanation) -> TextTable:
    """The verdict on a file and the evidence."""
    rows = [
        *_verdict(explanation),
        *_titled("because", explanation.evidence),
        *_references(explanation),
        *_titled("would be kept by", explanation.would_be_kept_by),
    ]
    return TextTable(("plan", explanation.plan), rows)


def object_tables(explanations: ObjectExplanations) -> Iterator[TextTable]:
    """The verdict on each object, and all that keeps it or lets it expire."""
    for each in explanations.objects:
        rows = [*_verdict(each)] if each.stored else [("stored", _NOT_STORED)]
        if each.evidence:
            _, path, where, ref, why = _evidence_row(each.evidence[0])
            rows.append(("decided by", f"{ref or where}, {path}: {why}"))
        yield TextTable(("object", each.address), rows)
        if each.evidence:
            columns = ("", "path", "in", "held by", "because")
            yield TextTable(columns, list(_evidence(each.evidence)))


def _verdict(each: FileExplanation | ExplainedObject) -> Iterator[tuple[str, str]]:
    yield "file", str(each.path)
    yield "verdict", str(each.verdict)
    yield "reason", f"{each.reason} ({each.rule})" if each.rule else str(each.reason)
    yield "size", format_size(each.size_bytes) if isinstance(each.size_bytes, int) else "-"
    yield "written", format_moment(each.modified) if each.modified else "-"


def _titled(title: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield ("" if number else title), text


def _references(explanation: FileExplanation) -> Iterator[tuple[str, str]]:
    """The roots that keep a file, and the path from each to the file."""
    for each in explanation.references[:_SHOWN_REFERENCES]:
        yield "kept by", f"{each.root}, as {each.kind}"
        yield from _titled("through", each.through)
    more = len(explanation.references) - _SHOWN_REFERENCES
    if more > 0:
        yield "", f"and {format_count(more, 'more root')}; --json shows all of them"


def _evidence(evidence: tuple[ObjectEvidence, ...]) -> Iterator[tuple[str, ...]]:
    yield from map(_evidence_row, evidence[:_SHOWN_ROWS])
    more = len(evidence) - _SHOWN_ROWS
    if more > 0:
        yield f"and {more:,} more; --json shows them all", "", "", "", ""


def _evidence_row(each: ObjectEvidence) -> tuple[str, ...]:
    ref = " ".join(filter(None, (each.ref_kind, each.ref)))
    commit = "staging" if each.commit_id is None else f"commit {each.commit_id[:_SHORT_ID]}"
    return "keeps" if each.keeps else "lets go", each.path, commit, ref, _why(each)


def _why(each: ObjectEvidence) -> str:
    if each.before is None:
        return f"{each.why} ({each.rule})" if each.rule else each.why
    age = "of unknown age" if each.age is None else f"of {each.age:%Y-%m-%d}"
    sign = "not before" if each.keeps else "before"
    return f"{each.rule}: {age}, {sign} {each.before:%Y-%m-%d}"
