"""`lakesweep plan`: judge every file of a lake and store the verdicts. Deletes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice, Overrides, absolute_address
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.units import format_duration, parse_duration, parse_moment

if TYPE_CHECKING:
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.listing.inventory import Inventory
    from lakesweep.sweep.judge.live_set import MatchMode
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.plan.document import PlanDocument
    from lakesweep.sweep.plan.planner import PlanRequest


def plan(
    context: Context,
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A lake of the configuration.")],
    engine: EngineChoice,
    exact: Annotated[bool, typer.Option("--exact", help="Match files hash by hash.")] = False,
    bloom: Annotated[
        bool,
        typer.Option("--bloom", help="Match files by a Bloom filter, which may keep some rubbish."),
    ] = False,
    inventory: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read what is stored from an inventory instead of listing: the manifest.json of "
            "an S3 inventory, or a Parquet or CSV file with path, size and modified.",
            show_default=False,
        ),
    ] = None,
    inventory_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|DURATION",
            help="When a Parquet or CSV inventory was made; its age is added to the grace.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Keep files younger than this, in place of what the configuration says.",
            show_default=False,
        ),
    ] = None,
    override: Overrides = None,
) -> None:
    """Find what nothing references any more, and write it down. Nothing is deleted.

    All files of the lake are listed, then everything that its roots reference is marked, and each
    file is judged: kept or deleted, with a reason. Guards look at the result; those that say no
    stop lakesweep apply, unless they are overridden, here or there. If a root cannot be read, all
    that it may share is kept, the plan is written, and the command ends with code 4.
    """
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import run_session
    from lakesweep.sweep.plan.planner import Planner

    found = context.app.lake(lake)
    order = _order(found, _mode(exact=exact, bloom=bloom), grace, override)
    order = _with_inventory(context, order, inventory, inventory_time)
    engine.warn(context, found)
    spec = _spec(order, engine.engine.value)
    with (
        run_session(context.app.runs, lake, RunKind.PLAN, spec=spec) as session,
        engine.open(context) as chosen,
    ):
        app = context.app
        planner = Planner(
            app.stores, chosen, app.runs, context.clock, context.progress, sources=app.root_sources
        )
        order = replace(order, name=session.record.run)  # one name for both
        document = planner.plan(order, session.started, session.lease)
        _record(session, document)
    _show(context, document)


def _order(
    lake: Lake, mode: MatchMode, grace: str | None, override: list[str] | None
) -> PlanRequest:
    from lakesweep.sweep.plan.planner import PlanRequest

    wanted = lake.grace if grace is None else parse_duration(grace)
    return PlanRequest(lake, wanted, mode, tuple(override or ()))


def _mode(*, exact: bool, bloom: bool) -> MatchMode:
    from lakesweep.sweep.judge.live_set import MatchMode

    if exact and bloom:
        raise UsageError("--exact and --bloom exclude each other", hint="give one of them, or none")
    if exact:
        return MatchMode.EXACT
    return MatchMode.BLOOM if bloom else MatchMode.AUTO


def _with_inventory(
    context: Context, order: PlanRequest, path: str | None, time: str | None
) -> PlanRequest:
    if path is None:
        if time is not None:
            raise UsageError("--inventory-time says nothing without --inventory")
        return order
    if time is not None and path.endswith(".json"):
        raise UsageError("the manifest of an inventory tells its own time", hint="leave it out")
    return replace(order, inventory=_open(context, path, time))


def _open(context: Context, path: str, time: str | None) -> Inventory:
    from lakesweep.storage.listing.inventory import open_inventory

    now = context.clock.now()
    taken_at = None if time is None else parse_moment(time, now)
    found = open_inventory(context.app.stores, absolute_address(path), taken_at=taken_at)
    found.age(now)  # refuses one that was made in the future
    return found


def _spec(order: PlanRequest, engine: str) -> dict[str, Any]:
    return {
        "engine": engine,
        "mode": order.mode.value,
        "grace": format_duration(order.grace),
        "inventory": None if order.inventory is None else order.inventory.path,
        "overridden": list(order.overridden),
    }


def _record(session: Session, document: PlanDocument) -> None:
    """What the run says of itself later."""
    from lakesweep.runs.records import RunStatus

    goes, stays = document.amount("delete"), document.amount("keep")
    session.figures = {
        "plan": document.plan,
        "delete_files": goes.files,
        "delete_bytes": goes.bytes,
        "keep_files": stays.files,
        "keep_bytes": stays.bytes,
        "roots_complete": document.roots.complete,
        "roots_incomplete": document.roots.incomplete,
        "filter": document.filter,
        "seconds": document.seconds,
        **document.spec,
    }
    if document.roots.incomplete:
        session.status = RunStatus.INCOMPLETE
        session.message = f"{document.roots.incomplete} roots could not be read"


def _show(context: Context, document: PlanDocument) -> None:
    from lakesweep.cli.render.plan_tables import (
        facts_table,
        plan_document,
        summary,
        totals_table,
        warnings_tables,
    )

    tables = [facts_table(document, "ready"), totals_table(document), *warnings_tables(document)]
    context.output.result(plan_document(document), *tables)
    context.output.say(summary(document))
    if document.amount("delete").files:
        context.output.say(f"try: lakesweep show {document.plan} --verdict delete")
        context.output.say(f"try: lakesweep apply {document.plan}")
    if document.roots.incomplete:
        raise typer.Exit(IncompleteError.exit_code)
