"""`lakesweep apply`: carry out a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions, Yes
from lakesweep.cli.render.output import TextTable
from lakesweep.cli.sweep.show import PlanName
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.runs.records import PlanRecord
    from lakesweep.runs.sessions import Session
    from lakesweep.sweep.apply.applier import Applier, ApplyRequest, ApplyResult
    from lakesweep.sweep.plan.document import PlanDocument, PlanKind
    from lakesweep.sweep.roots.sources import RootSourceFactory

_SHOWN_FAILURES = 20
_SHOWN_BRANCHES = 20


Quarantine = Annotated[
    bool,
    typer.Option("--quarantine", help="Set files aside; lakesweep quarantine brings them back."),
]


@dataclass(frozen=True)
class ApplyMethod:
    """How plans of a kind are carried out: who is asked again, and who applies."""

    kind: PlanKind
    sources: Callable[[Context, PlanRecord, PlanDocument], RootSourceFactory]
    apply: Callable[[Applier, ApplyRequest, PlanDocument, Session], ApplyResult]
    waits: Callable[[PlanDocument], dict[str, Any]] = lambda _: {}
    """What is taken off branches first and goes in a later run: `files`, `bytes`, `branches`."""


def apply(
    context: Context,
    plan: PlanName,
    engine: EngineChoice,
    pace: RateLimitOptions,
    quarantine: Quarantine = False,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete what a plan says, unless something needs it by now.

    Guards come first; one that says no ends the command with code 3, and nothing is deleted. Then
    all roots are looked at again: what came or moved since is marked, and what it references stays.
    A plan is applied once. Where a run was stopped or died, the same command goes on with it.
    """
    from lakesweep.sweep.apply.applier import Applier
    from lakesweep.sweep.plan.document import PlanKind

    way = ApplyMethod(PlanKind.SWEEP, lambda *_: context.app.root_sources, Applier.apply)
    carry_out(
        context,
        plan,
        engine,
        pace,
        way,
        quarantine=quarantine,
        override=override,
        dry_run=dry_run,
        yes=yes,
    )


def carry_out(
    context: Context,
    plan: str,
    engine: EngineChoice,
    pace: RateLimitOptions,
    way: ApplyMethod,
    *,
    quarantine: bool,
    override: list[str] | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Apply a plan, if no guard says no and somebody agrees."""
    from lakesweep.sweep.apply.applier import load_applicable_plan
    from lakesweep.sweep.plan.document import check_kind

    order = _order(context, plan, pace, tuple(override or ()), quarantine=quarantine)
    document = load_applicable_plan(
        context.app.stores, context.app.runs, order, context.clock.now()
    )
    check_kind(document, way.kind)
    waits = way.waits(document)
    _announce(context, document, waits, quarantine=quarantine)
    if dry_run:
        context.output.result(_document(document, None, dry_run=True) | _taken_off(waits))
        context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")
        return
    question = "set aside {}?" if quarantine else "delete {} for good?"
    context.confirm(question.format(_size(document, waits)), yes=yes)
    _apply(context, engine, order, document, way)


def _apply(
    context: Context,
    engine: EngineChoice,
    order: ApplyRequest,
    document: PlanDocument,
    way: ApplyMethod,
) -> None:
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import run_session
    from lakesweep.sweep.apply.applier import Applier
    from lakesweep.sweep.apply.deletion import QuarantineRemoval

    stores, runs = context.app.stores, context.app.runs
    spec = {
        "overridden": list(order.overridden),
        "engine": engine.engine.value,
        "quarantine": isinstance(order.removal, QuarantineRemoval),
        **order.removal.spec,
    }
    with (
        engine.open(context) as chosen,
        run_session(runs, document.lake, RunKind.APPLY, plan=document.plan, spec=spec) as session,
    ):
        sources = way.sources(context, order.plan, document)
        applier = Applier(stores, chosen, runs, context.clock, context.progress, sources)
        applied = way.apply(applier, order, document, session)
    _show(context, document, applied, session.record.run)


def _order(
    context: Context,
    plan: str,
    pace: RateLimitOptions,
    overridden: tuple[str, ...],
    *,
    quarantine: bool,
) -> ApplyRequest:
    from lakesweep.storage.deleting.quarantine import QUARANTINE_SCHEMA
    from lakesweep.storage.file_batches import OUTCOME_SCHEMA
    from lakesweep.sweep.apply.applier import ApplyRequest
    from lakesweep.sweep.apply.deletion import DeleteRemoval, QuarantineRemoval
    from lakesweep.sweep.holdings import quarantine_places
    from lakesweep.sweep.plan.stored_plan import find_plan

    record = find_plan(context.app.runs, plan)
    lake = context.app.lake_of(record)
    return ApplyRequest(
        record,
        lake,
        QuarantineRemoval(quarantine_places(lake, record.plan)) if quarantine else DeleteRemoval(),
        QUARANTINE_SCHEMA if quarantine else OUTCOME_SCHEMA,
        pace.rate,
        overridden,
    )


def _announce(
    context: Context, document: PlanDocument, waits: dict[str, Any], *, quarantine: bool
) -> None:
    what = "to set aside" if quarantine else "to delete"
    size = _size(document, waits)
    context.output.say(f"plan {document.plan} of lake {document.lake}: {size} {what}")
    branches = waits.get("branches", [])
    for each in branches[:_SHOWN_BRANCHES]:
        paths = format_count(each["paths"], "path")
        context.output.say(f"{paths} to take off branch {each['name']}, by a commit")
    if (more := len(branches) - _SHOWN_BRANCHES) > 0:
        context.output.say(f"and off {more:,} more branches")
    if files := waits.get("files"):
        size = f"{format_count(files, 'file')}, {format_size(waits['bytes'])}"
        context.output.say(f"{size} wait for the next run, when no branch has them any more")


def _size(document: PlanDocument, waits: dict[str, Any]) -> str:
    amount = document.amount("delete")
    files, size = amount.files - waits.get("files", 0), amount.bytes - waits.get("bytes", 0)
    return f"{format_count(files, 'file')}, {format_size(size)}"


def _taken_off(waits: dict[str, Any]) -> dict[str, Any]:
    """What a dry run tells of what would be taken off branches."""
    if not waits:
        return {}
    branches = {each["name"]: each["paths"] for each in waits["branches"]}
    return {"waiting": waits["files"], "to_take_off": branches}


def _show(context: Context, document: PlanDocument, applied: ApplyResult, run: str) -> None:
    context.output.result(_document(document, applied, run=run), *_tables(applied))
    for failure in applied.figures["failures"][:_SHOWN_FAILURES]:
        context.output.say(f"{failure['path']}: {failure['reason']}")
    untouched = [each for each in applied.figures.get("branches", []) if each["reason"]]
    for each in untouched[:_SHOWN_BRANCHES]:
        context.output.say(f"branch {each['branch']} is left as it is: {each['reason']}")
    if applied.stopped:
        from lakesweep.sweep.apply.applier import stop_error

        raise stop_error(applied)
    if applied.figures["failed"] or applied.figures.get("branches_refused"):
        raise typer.Exit(IncompleteError.exit_code)


def _document(
    document: PlanDocument,
    applied: ApplyResult | None,
    *,
    run: str | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    figures = applied.figures if applied else _nothing_done(document)
    return {
        **figures,
        "run": run,
        "plan": document.plan,
        "kept_by_remark": applied.kept_by_remark if applied else 0,
        "quarantined": figures.get("quarantined", 0),
        "stopped": applied.stopped if applied else None,
        "dry_run": dry_run,
    }


def _nothing_done(document: PlanDocument) -> dict[str, Any]:
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals

    return {**OutcomeTotals().document(), "found": document.amount("delete").files}


def _tables(applied: ApplyResult) -> Iterator[TextTable]:
    yield _table(applied)
    changed = [each for each in applied.figures.get("branches", []) if not each["reason"]]
    if changed:
        rows = [(each["branch"], f"{each['paths']:,}") for each in changed[:_SHOWN_BRANCHES]]
        yield TextTable(("branch", "paths taken off"), rows, numbers=frozenset({"paths taken off"}))


def _table(applied: ApplyResult) -> TextTable:
    figures = applied.figures
    names = ("found", "deleted", "quarantined", "changed", "absent", "failed")
    rows = [(name, f"{figures[name]:,}") for name in names if name in figures]
    if "waiting" in figures:
        rows.append(("waiting for the next run", f"{figures['waiting']:,}"))
    rows.append(("kept after all", f"{applied.kept_by_remark:,}"))
    rows.append(("freed", format_size(figures["bytes_deleted"])))
    return TextTable(("outcome", "files"), rows, numbers=frozenset({"files"}))
