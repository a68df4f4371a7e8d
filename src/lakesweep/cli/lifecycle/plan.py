"""`lakesweep lifecycle plan`: judge every object by a policy. Deletes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice, Overrides, absolute_address
from lakesweep.cli.repositories import RepositoryName, find_repository, neighbours_of
from lakesweep.errors import ConfigError
from lakesweep.units import parse_duration

if TYPE_CHECKING:
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
    from lakesweep.runs.sessions import Session
    from lakesweep.sweep.plan.document import PlanDocument


class CommitSelection(StrEnum):
    """Which commits are looked at for what is due; the same as `selecting.Selection`."""

    FULL = "full"
    INCREMENTAL = "incremental"
    REQUIREMENT = "requirement"


#: The fewest days that a rule may say, unless somebody wants fewer.
_FLOOR = 7


@dataclass(frozen=True)
class PolicyOptions:
    """How a policy is read, and what it looks at."""

    policy: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The policy: JSON, YAML or TOML by its name.", show_default=False
        ),
    ]
    mode: Annotated[
        CommitSelection,
        typer.Option(
            help="Look at all commits, at those that may be new since the last run that swept, or "
            "at those that the requirement's own rule takes, which misses some."
        ),
    ] = CommitSelection.FULL
    floor: Annotated[
        int, typer.Option(min=1, metavar="DAYS", help="Refuse rules with fewer days than this.")
    ] = _FLOOR
    branch_grace: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="For so long a deleted branch holds on to what it held."
        ),
    ] = "7d"
    place: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Keep plans, tables and what is set aside here, and not in"
            " _lakefs/retention/lc of the namespace.",
            show_default=False,
        ),
    ] = None
    tags_protect_history: Annotated[
        bool,
        typer.Option(
            "--tags-protect-history", help="Let tags keep all commits behind theirs as well."
        ),
    ] = False


def plan(
    context: Context,
    repo: RepositoryName,
    wanted: PolicyOptions,
    engine: EngineChoice,
    override: Overrides = None,
) -> None:
    """Find the objects that every rule lets go on every branch, and write them down.

    Nothing is deleted. What a HEAD, a tag or something staged holds stays, and so does what no rule
    covers. An object goes only when all that names it, in any commit, is covered and due. Guards
    look at the result, as in lakesweep plan. What cannot be read ends the command with code 4, and
    no plan is made.
    """
    from lakesweep.lifecycle.repository_lake import lake_name
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import run_session

    repository = find_repository(context, repo)
    order = _order(context, repository, wanted, tuple(override or ()))
    for line in order.spec.policy.words():
        context.output.say(line)
    engine.warn(context, order.lake)
    spec = {"engine": engine.engine.value, "mode": wanted.mode.value, "policy": str(wanted.policy)}
    lake = lake_name(repository.namespace)
    with run_session(context.app.runs, lake, RunKind.PLAN, spec=spec) as session:
        document = _plan(context, engine, order, session)
    _show(context, document)


def _plan(
    context: Context, engine: EngineChoice, order: LifecyclePlanRequest, session: Session
) -> PlanDocument:
    from dataclasses import replace

    from lakesweep.lifecycle.plan.planner import LifecyclePlanner

    app = context.app
    with engine.open(context) as chosen:
        planner = LifecyclePlanner(
            app.stores, chosen, app.judges(chosen), app.runs, context.clock, context.progress
        )
        order = replace(order, spec=replace(order.spec, run_id=session.record.run))
        document = planner.plan(order, session.started, session.lease)
    goes, stays = document.amount("delete"), document.amount("keep")
    session.figures = {
        "plan": document.plan,
        "delete_files": goes.files,
        "delete_bytes": goes.bytes,
        "keep_files": stays.files,
        "keep_bytes": stays.bytes,
        "seconds": document.seconds,
        **document.spec,
    }
    return document


def _order(
    context: Context,
    repository: Repository,
    wanted: PolicyOptions,
    overridden: tuple[str, ...],
) -> LifecyclePlanRequest:
    from lakesweep.lifecycle.judge.commit_selection import Selection
    from lakesweep.lifecycle.judge.pipeline import LifecycleSpec
    from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
    from lakesweep.lifecycle.policy.parser import parse_policy

    data = _read(wanted.policy)
    home = None if wanted.place is None else absolute_address(wanted.place)
    spec = LifecycleSpec(
        repository,
        parse_policy(data, wanted.policy.name, floor=wanted.floor),
        run_id="",
        now=context.clock.now(),
        folder="",
        home=home,
        selection=Selection(wanted.mode.value),
        grace=parse_duration(wanted.branch_grace),
        tags_protect_history=wanted.tags_protect_history,
        without_staging="staged" in overridden,
    )
    return LifecyclePlanRequest(
        context.app.repository_lake(repository.namespace, home),
        spec,
        lambda: context.app.repository_alone(repository.name),
        neighbours_of(context, repository),
        overridden,
        data.decode(),
        wanted.policy.name,
        context.app.root_sources,
        context.app.siblings(repository.name),
    )


def _read(policy: Path) -> bytes:
    try:
        return policy.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the policy {policy} cannot be read: {error.strerror}",
            hint="give the file of a policy, such as policy.json",
        ) from error


def _show(context: Context, document: PlanDocument) -> None:
    from lakesweep.cli.render.lifecycle_plan_tables import insight_tables, lifecycle_facts_table
    from lakesweep.cli.render.plan_tables import (
        plan_document,
        summary,
        totals_table,
        warnings_tables,
    )

    tables: list[Any] = [
        lifecycle_facts_table(document, "ready"),
        totals_table(document),
        *insight_tables(document),
        *warnings_tables(document),
    ]
    context.output.result(plan_document(document), *tables)
    for warning in document.details["warnings"]:
        context.output.say(f"warning: {warning}")
    context.output.say(summary(document))
    if document.amount("delete").files:
        context.output.say(f"try: lakesweep lifecycle show {document.plan} --verdict delete")
        context.output.say(f"try: lakesweep lifecycle apply {document.plan}")
