"""`lakesweep check`: find dangling references, files that are referenced but not stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice
from lakesweep.cli.render.output import TextTable
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.runs.sessions import Session
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.inspect.check import CheckResult, MissingFiles
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.survey import LakeSurvey
    from lakesweep.sweep.plan.stored_plan import StoredPlan

_SHOWN_FILES = 20
_SHOWN_TABLES = 100


def check(
    context: Context,
    engine: EngineChoice,
    lake: Annotated[
        str | None,
        typer.Argument(metavar="[LAKE]", help="A lake of the configuration.", show_default=False),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="Check what this plan listed and marked, in place of doing it anew.",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="Show every missing file, one a line.")
    ] = False,
) -> None:
    """Find files that tables reference and that are not stored. Nothing is deleted.

    The lake is listed and marked as for a plan. What was not listed is looked at once more, and
    tables that moved meanwhile are marked again, so writers raise no false alarm. Ends with code 4
    if a file is missing or a root cannot be read, and with 0 if all is there.
    """
    from lakesweep.operations.engines import warn_of_local_plans
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import run_session

    found = _find(context, lake, plan)
    warn_of_local_plans(context.app, engine.engine, found.lake, context.io)
    spec = {"engine": engine.engine.value, "plan": plan}
    runs = context.app.runs
    with run_session(runs, found.lake.name, RunKind.CHECK, plan=plan, spec=spec) as session:
        address = f"{found.lake.plans}/{session.record.run}"
        try:
            with engine.open(context) as chosen:
                checked = _check(context, found, chosen, session, address)
            _record(session, checked)
            _show(context, found.lake, session.record.run, checked, files=files)
        finally:
            _tidy(context, address)
    if session.message:
        raise typer.Exit(IncompleteError.exit_code)


@dataclass(frozen=True)
class _Subject:
    """What is to be checked: a lake, perhaps as a plan saw it."""

    lake: Lake
    plan: StoredPlan | None = None


def _find(context: Context, lake: str | None, plan: str | None) -> _Subject:
    from lakesweep.sweep.plan.stored_plan import open_plan

    if (lake is None) == (plan is None):
        raise UsageError("name a lake, or a plan after --plan", hint="lakesweep check --help")
    if lake is not None:
        return _Subject(context.app.lake(lake))
    found = open_plan(context.app.stores, context.app.runs, plan or "")
    return _Subject(context.app.lake(found.document.lake), found)


def _check(
    context: Context, subject: _Subject, engine: SweepEngine, session: Session, address: str
) -> CheckResult:
    from lakesweep.sweep.inspect.check import LakeChecker

    survey = _survey(context, subject, engine, session, address)
    with context.progress.task("checked", unit="names") as task:
        checker = LakeChecker(context.app.stores, engine, context.app.root_sources)
        checked = checker.check(subject.lake, survey, address)
        task.advance(checked.marks.content.rows)
    return checked


def _survey(
    context: Context, subject: _Subject, engine: SweepEngine, session: Session, address: str
) -> LakeSurvey:
    from lakesweep.sweep.mark.survey import LakeSurvey, Surveyor

    if subject.plan is not None:
        return LakeSurvey(subject.plan.dataset("listing"), subject.plan.marks())
    app = context.app
    surveyor = Surveyor(
        app.stores, engine, context.clock, context.progress, sources=app.root_sources
    )
    record = app.runs.lake(subject.lake.name)
    return surveyor.survey(subject.lake, record, address, session.lease)


def _record(session: Session, checked: CheckResult) -> None:
    from lakesweep.runs.records import RunStatus

    incomplete = _incomplete(checked)
    session.figures = {
        "missing": checked.files,
        "tables_broken": len({gap.table for gap in checked.gaps}),
        "outside": checked.outside,
        "roots": len(checked.marks.roots),
        "roots_incomplete": len(incomplete),
        "names": checked.marks.content.rows,
    }
    problems = [f"{format_count(checked.files, 'file')} missing"] if checked.files else []
    problems += [f"{format_count(len(incomplete), 'root')} not readable"] if incomplete else []
    if problems:
        session.status, session.message = RunStatus.INCOMPLETE, ", ".join(problems)


def _incomplete(checked: CheckResult) -> list[dict[str, str]]:
    from lakesweep.sweep.plan.document import incomplete_roots

    roots = incomplete_roots(checked.marks)
    return [{"name": root.name, "reason": root.reason} for root in roots]


def _show(context: Context, lake: Lake, run: str, checked: CheckResult, *, files: bool) -> None:
    from lakesweep.cli.render.rows import MissingRows
    from lakesweep.storage.datasets.reader import read_dataset

    batches = read_dataset(context.app.stores, checked.missing)
    if files:
        context.output.rows(batches, MissingRows())
        return
    first = _first(batches)
    document = {
        "lake": lake.name,
        "run": run,
        "missing": checked.files,
        "outside": checked.outside,
        "roots": {"complete": _complete(checked), "incomplete": len(_incomplete(checked))},
        "incomplete_roots": _incomplete(checked),
        "tables": list(_by_table(checked.gaps)),
        "files": first,
    }
    context.output.result(document, *_tables(document))
    _sum_up(context, lake, checked)


def _sum_up(context: Context, lake: Lake, checked: CheckResult) -> None:
    names = format_count(checked.marks.content.rows, "reference")
    roots = format_count(len(checked.marks.roots), "root")
    if checked.files:
        tables = format_count(len({gap.table for gap in checked.gaps}), "table")
        context.output.say(f"{format_count(checked.files, 'file')} missing, of {tables}")
        context.output.say(f"try: lakesweep check {lake.name} --files")
    else:
        context.output.say(f"nothing is missing: {names} of {roots} lead to stored files")
    if checked.outside:
        outside = format_count(checked.outside, "file")
        context.output.say(f"{outside} outside of the lake's locations were not looked at")


def _complete(checked: CheckResult) -> int:
    from lakesweep.sweep.mark.marks import RootState

    return len(list(checked.marks.in_state(RootState.COMPLETE)))


def _first(batches: Iterator[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        rows += batch.slice(0, _SHOWN_FILES - len(rows)).to_pylist()
        if len(rows) == _SHOWN_FILES:
            break
    return rows


def _by_table(gaps: Sequence[MissingFiles]) -> Iterator[dict[str, Any]]:
    for table, some in groupby(gaps, key=lambda gap: gap.table):
        found = list(some)
        yield {
            "table": table,
            "files": sum(gap.files for gap in found),
            "bytes": sum(gap.bytes for gap in found),
            "kinds": {gap.kind: gap.files for gap in found},
        }


def _tables(document: Mapping[str, Any]) -> Iterator[TextTable]:
    numbers = frozenset({"missing", "size"})
    if document["tables"]:
        rows = [_row(each) for each in document["tables"][:_SHOWN_TABLES]]
        yield TextTable(("table", "missing", "size", "kinds"), rows, numbers=numbers)
        files = [(each["path"], each["kind"] or "", each["table"]) for each in document["files"]]
        yield TextTable(("missing file", "kind", "needed by"), files)
    if document["incomplete_roots"]:
        pairs = [(root["name"], root["reason"]) for root in document["incomplete_roots"]]
        yield TextTable(("incomplete root", "why"), pairs)


def _row(each: Mapping[str, Any]) -> tuple[str, str, str, str]:
    kinds = ", ".join(f"{files:,} {kind}" for kind, files in each["kinds"].items())
    return each["table"], f"{each['files']:,}", format_size(each["bytes"]), kinds


def _tidy(context: Context, address: str) -> None:
    from lakesweep.storage.deleting.bulk_delete import remove_folder

    remove_folder(context.app.stores, address)
