"""`lakesweep lifecycle apply`: carry out a plan by a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import absolute_repository
from lakesweep.cli.lifecycle.show import LifecyclePlan
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions, Yes
from lakesweep.cli.sweep.apply import ApplyMethod, Quarantine, carry_out

if TYPE_CHECKING:
    from lakesweep.lifecycle.plan.recheck import RecheckSources
    from lakesweep.runs.records import PlanRecord
    from lakesweep.runs.sessions import Session
    from lakesweep.sweep.apply.applier import Applier, ApplyRequest, ApplyResult
    from lakesweep.sweep.plan.document import PlanDocument

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
    pace: RateLimitOptions,
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

    from lakesweep.lifecycle.apply.applier import apply_lifecycle_plan, pending_on_heads
    from lakesweep.operations.repositories import opener_of, plan_or_lake, recheck_sources
    from lakesweep.sweep.plan.document import PlanKind

    def carry(
        applier: Applier, order: ApplyRequest, document: PlanDocument, session: Session
    ) -> ApplyResult:
        opener = opener_of(context.app, document.details["repository"])
        return apply_lifecycle_plan(
            applier, order, document, session, opener, at_once=bytes_at_once
        )

    def sources(context: Context, plan: PlanRecord, document: PlanDocument) -> RecheckSources:
        return recheck_sources(context.app, plan, document)

    carry_out(
        context,
        plan_or_lake(context.app, absolute_repository(plan)),
        engine,
        pace,
        ApplyMethod(
            PlanKind.LIFECYCLE, sources, carry, partial(pending_on_heads, at_once=bytes_at_once)
        ),
        quarantine=quarantine,
        override=override,
        dry_run=dry_run,
        yes=yes,
    )
