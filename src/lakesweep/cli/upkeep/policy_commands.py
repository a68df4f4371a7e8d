"""`lakesweep policy`: the upkeep rules in force for tables, shown and carried out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, Yes
from lakesweep.cli.render.policy_tables import outcome_text, policy_tables
from lakesweep.operations.interaction import EngineName
from lakesweep.units import parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.table_policies import PolicyStep
    from lakesweep.upkeep.policy.rule_sources import UpkeepKey, Value

app = group(
    "policy",
    "The upkeep rules in force for tables: where each comes from, and carrying them out.",
    examples=["lakesweep policy show prod.shop.orders", "lakesweep policy run --lake prod"],
)
LakeName = Annotated[str, typer.Option("--lake", metavar="LAKE", help="The tables of this lake.")]

LargeTableEngine = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        help="Read large tables on Spark, or in this process as all others. By default the engine"
        " of the configuration, or else this process.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class GivenRules:
    """Values that come before those of tables, rules and policies."""

    max_snapshot_age: Annotated[
        str | None,
        typer.Option(
            "--max-snapshot-age",
            metavar="TIME",
            help="Expire snapshots that are older, such as 7d.",
            show_default=False,
        ),
    ] = None
    min_snapshots: Annotated[
        int | None,
        typer.Option(
            "--min-snapshots",
            metavar="N",
            min=1,
            help="Keep this many of each branch, whatever their age.",
            show_default=False,
        ),
    ] = None

    @property
    def values(self) -> dict[UpkeepKey, Value]:
        from lakesweep.upkeep.policy.rule_sources import UpkeepKey

        found: dict[UpkeepKey, Value] = {}
        if self.max_snapshot_age is not None:
            age = parse_duration(self.max_snapshot_age)
            found[UpkeepKey.MAX_SNAPSHOT_AGE] = age // timedelta(milliseconds=1)
        if self.min_snapshots is not None:
            found[UpkeepKey.MIN_SNAPSHOTS] = self.min_snapshots
        return found


@command(
    app,
    "show",
    examples=["lakesweep policy show prod.shop.orders", "lakesweep policy show default:shop.n.t"],
)
def show(
    context: Context,
    given: GivenRules,
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="catalog.namespace.table.", show_default=False),
    ],
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="LAKE",
            help="The lake whose rules and defaults apply; by default the first with its catalog.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the upkeep rules in force for a table, and where each value comes from.

    For each value the nearest source wins: fields of the branch or tag, the command line,
    properties lakesweep.* of the table, Iceberg's own properties, rules of the configuration,
    policies of the catalog, defaults of the lake. One veto is enough to switch a job off, and the
    lake's min_age and min_keep only ever keep more.
    """
    from lakesweep.operations.upkeep.table_policies import PolicyShowRequest, show_policy

    request = PolicyShowRequest(table=table, lake=lake, given=given.values)
    view = show_policy(context.app, request)
    context.output.result(view, *policy_tables(view))
    for note in view.notes:
        context.output.say(f"note: {note}")


@command(
    app,
    "run",
    examples=[
        "lakesweep policy run --lake prod --dry-run",
        "lakesweep policy run --lake prod --yes",
    ],
)
def run(
    context: Context,
    given: GivenRules,
    pace: RateLimitOptions,
    lake: LakeName,
    engine: LargeTableEngine = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Carry out the upkeep rules of each table of a lake, one table after another.

    Snapshots expire, and manifests are rewritten, where a rule switches that on and nothing forbids
    it. Orphan files are left to a sweep of the lake. A table that fails does not stop the
    others; the exit code is the highest of all.
    """
    from lakesweep.operations.upkeep.table_policies import PolicyRunRequest, run_policies

    request = PolicyRunRequest(
        lake=lake,
        given=given.values,
        rate=pace.rate,
        overrides=frozenset(override or ()),
        dry_run=dry_run,
        engine=engine,
    )
    exit_code = 0

    def confirm(step: PolicyStep) -> None:
        context.confirm(f"{step.table}: {step.what}?", yes=yes, refused="nothing was changed")

    for outcome in run_policies(context.app, request, confirm, context.io):
        context.output.structs([outcome], outcome_text)
        exit_code = max(exit_code, outcome.exit_code)
    if exit_code:
        raise typer.Exit(exit_code)
