"""`lakesweep lifecycle apply`: carry out a plan by a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.apply import Quarantine, Way, carry_out
from lakesweep.cli.context import Context
from lakesweep.cli.engines import EngineChoice
from lakesweep.cli.lifecycle_repositories import opener_of
from lakesweep.cli.lifecycle_show import LifecyclePlan, plan_or_lake
from lakesweep.cli.options import DryRun, Overrides, Yes
from lakesweep.cli.purging import Pace

if TYPE_CHECKING:
    from lakesweep.lifecycle.rereading import PlanSources
    from lakesweep.sweep.applying import Applied, Applier, ApplyOrder
    from lakesweep.sweep.lakefs_roots import Opener
    from lakesweep.sweep.plans import PlanDocument
    from lakesweep.sweep.records import PlanRecord
    from lakesweep.sweep.sessions import Session

BytesAtOnce = Annotated[
    bool,
    typer.Option(
        "--bytes-at-once",
        help="Delete at once what HEADs hold too, where rules expire it, and leave its paths on"
        " the branches: readers get an error for them.",
    ),
]


def apply(
    context: Context,
    plan: LifecyclePlan,
    engine: EngineChoice,
    pace: Pace,
    quarantine: Quarantine = False,
    bytes_at_once: BytesAtOnce = False,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the objects of a plan, unless something needs them by now.

    Guards come first; one that says no ends the command with code 3, and nothing is deleted. Then
    all that is staged is read again, and all commits that are new or that a branch or tag has taken
    up since: what they hold stays. While objects go, the repository is looked at again and again.
    What a HEAD holds, and a rule with expire_heads lets go, is first taken off its branch, by a
    commit that is merged into it, and goes in the next run. A branch on which something is staged
    is left as it is.
    A plan is applied once. Where a run was stopped or died, the same command goes on with it.
    """
    from functools import partial

    from lakesweep.lifecycle.applying import apply_plan, waits
    from lakesweep.sweep.plans import PlanKind

    def carry(
        applier: Applier, order: ApplyOrder, document: PlanDocument, session: Session
    ) -> Applied:
        opener = opener_of(context, document.details["repository"])
        return apply_plan(applier, order, document, session, opener, at_once=bytes_at_once)

    carry_out(
        context,
        plan_or_lake(context, plan),
        engine,
        pace,
        Way(PlanKind.LIFECYCLE, sources_of, carry, partial(waits, at_once=bytes_at_once)),
        quarantine=quarantine,
        override=override,
        dry_run=dry_run,
        yes=yes,
    )


def sources_of(context: Context, plan: PlanRecord, document: PlanDocument) -> PlanSources:
    """Who is asked what changed since a plan."""
    from lakesweep.lifecycle.applying import plan_sources

    details = document.details
    # Those that were configured since may have imported objects as well.
    names = (details["repository"], *details["neighbours"], *context.app.repository_names)
    openers: dict[str, Opener] = {name: opener_of(context, name) for name in names}
    # Servers let another one be made in the same folder at any time.
    openers[names[0]] = lambda: context.app.repository_alone(names[0])
    return plan_sources(context.app.stores, plan, document, openers, context.app.root_sources)
