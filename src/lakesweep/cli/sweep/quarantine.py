"""`lakesweep quarantine`: list, restore or empty what `apply --quarantine` moved."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, Yes, absolute_address
from lakesweep.cli.render.output import TextTable
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
    from lakesweep.sweep.holdings import Holding

_PLAN = "plan-20260101T000000-5c2f81aa"
_SHOWN_FAILURES = 20

app = group(
    "quarantine",
    "What apply --quarantine set aside: list it, bring it back, or end its hold.",
    examples=[
        "lakesweep quarantine list",
        f"lakesweep quarantine restore {_PLAN}",
        f"lakesweep quarantine empty {_PLAN} --yes",
    ],
)

Name = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan that set files aside, or a run of it.")
]


@command(app, "list", examples=["lakesweep quarantine list", "lakesweep quarantine list --json"])
def list_held(context: Context) -> None:
    """Everything that was set aside, newest first."""
    from lakesweep.sweep.holdings import holdings
    from lakesweep.sweep.quarantine.restore import count_held

    found = [count_held(context.app.stores, holding) for holding in holdings(context.app.runs)]
    document = {"held": [_document(holding) for holding in found]}
    rows = [
        (
            holding.plan,
            holding.lake,
            _since(holding),
            f"{holding.files:,}",
            format_size(holding.size_bytes),
            _state(holding),
        )
        for holding in found
    ]
    columns = ("plan", "lake", "since", "files", "size", "state")
    table = TextTable(columns, rows, numbers=frozenset({"files", "size"}))
    context.output.result(document, *([table] if rows else []))
    if not rows:
        context.output.say("nothing was ever set aside")


@command(
    app,
    "restore",
    examples=[
        f"lakesweep quarantine restore {_PLAN}",
        f"lakesweep quarantine restore {_PLAN} --path s3://lake/shop/orders/data/0000.parquet",
    ],
)
def restore(
    context: Context,
    plan: Name,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="URI", help="Only this file; may be given several times."),
    ] = None,
) -> None:
    """Bring files back, each under its old key.

    A key that another file has by now is left alone, and the file stays in quarantine. The command
    ends with code 4 unless all files are back. It can be repeated.
    """
    from lakesweep.runs.records import RunKind
    from lakesweep.storage.object_store import Outcome
    from lakesweep.sweep.quarantine.restore import QuarantineRestorer

    holding = _find(context, plan)
    lake = context.app.lake_of_holding(holding)
    keeper = QuarantineRestorer(context.app.stores, context.app.runs, lake)
    paths = [absolute_address(each) for each in path or ()]
    with _running(context, holding, RunKind.RESTORE) as session:
        tally = keeper.restore(holding, paths)
        _record(session, tally)
    _show(context, holding, tally, "restored")
    if tally.counts[Outcome.RESTORED] < tally.found:
        raise typer.Exit(IncompleteError.exit_code)


@command(
    app,
    "empty",
    examples=[
        f"lakesweep quarantine empty {_PLAN} --dry-run",
        f"lakesweep quarantine empty {_PLAN} --yes",
    ],
)
def empty(
    context: Context,
    plan: Name,
    engine: EngineChoice,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete for good what a plan set aside, unless something references it by now.

    All roots are looked at again, as before any delete. What is referenced stays in quarantine, and
    the command ends with code 4; so it does where a root cannot be read, and then nothing goes.
    Versions below the delete markers of a versioned bucket stay until a rule of the bucket ends
    them.
    """
    from lakesweep.cli.sweep.quarantine_sources import empty_quarantine
    from lakesweep.runs.records import RunKind, RunStatus

    holding = _find(context, plan)
    size = f"{format_count(holding.files, 'file')}, {format_size(holding.size_bytes)}"
    context.output.say(f"plan {holding.plan} of lake {holding.lake} holds {size}")
    if dry_run:
        context.output.result({**_document(holding), "dry_run": True})
        context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")
        return
    context.confirm(f"delete {size} for good?", yes=yes)
    overridden = tuple(override or ())
    spec = {"engine": engine.engine.value, "overridden": list(overridden)}
    with engine.open(context) as chosen, _running(context, holding, RunKind.EMPTY, spec) as session:
        released = empty_quarantine(context, chosen, holding, session, overridden)
        _record(session, released.tally)
        if released.kept:
            session.status = RunStatus.INCOMPLETE
    _show(context, holding, released.tally, "deleted", released.referenced)


def _find(context: Context, name: str) -> Holding:
    from lakesweep.sweep.holdings import find_holding
    from lakesweep.sweep.quarantine.restore import count_held

    return count_held(context.app.stores, find_holding(context.app.runs, name))


def _running(
    context: Context, holding: Holding, kind: RunKind, spec: Mapping[str, Any] | None = None
) -> AbstractContextManager[Session]:
    from lakesweep.runs.sessions import run_session

    return run_session(context.app.runs, holding.lake, kind, plan=holding.plan, spec=spec or {})


def _record(session: Session, tally: OutcomeTotals) -> None:
    from lakesweep.runs.records import RunStatus

    session.figures = {k: v for k, v in tally.document().items() if k != "failures"}
    if tally.failed:
        session.status = RunStatus.INCOMPLETE


def _show(
    context: Context,
    holding: Holding,
    tally: OutcomeTotals,
    word: str,
    referenced: Sequence[str] = (),
) -> None:
    document = {**tally.document(), "plan": holding.plan, "lake": holding.lake}
    if referenced:
        document["referenced_files"] = list(referenced)
    rows = [
        (name, f"{count:,}")
        for name, count in tally.document().items()
        if isinstance(count, int) and not name.startswith(("bytes", "failures"))
    ]
    context.output.result(document, TextTable((word, "files"), rows, numbers=frozenset({"files"})))
    for failure in tally.failures[:_SHOWN_FAILURES]:
        context.output.say(f"{failure.path}: {failure.reason}")
    if referenced:
        _tell_referenced(context, holding, referenced)
    if tally.failed or referenced:
        raise typer.Exit(IncompleteError.exit_code)


def _tell_referenced(context: Context, holding: Holding, paths: Sequence[str]) -> None:
    """Name what something references by now, and the command that brings it back."""
    for path in paths[:_SHOWN_FAILURES]:
        context.output.say(f"{path}: something references it by now, so it stays in quarantine")
    names = "".join(f" --path {shlex.quote(path)}" for path in paths)
    several = len(paths) > _SHOWN_FAILURES  # all come back, and the next plan finds the rest again
    context.output.say(
        f"try: lakesweep quarantine restore {holding.plan}{'' if several else names}"
    )


def _document(holding: Holding) -> dict[str, object]:
    return {
        "plan": holding.plan,
        "lake": holding.lake,
        "since": _since(holding),
        "files": holding.files,
        "size_bytes": holding.size_bytes,
        "restored": holding.restored,
        "runs": [run.run for run in holding.runs],
        "emptied_by": holding.ended,
    }


def _state(holding: Holding) -> str:
    if holding.ended:
        return f"emptied by {holding.ended}"
    back = f"{holding.restored:,} restored" if holding.restored else ""
    return ", ".join(filter(None, ("held" if holding.files else "", back))) or "empty"


def _since(holding: Holding) -> str:
    from lakesweep.timestamps import moment

    return format_moment(moment(holding.since).replace(microsecond=0))
