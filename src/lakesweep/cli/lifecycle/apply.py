"""`lakesweep lifecycle apply`: carry out a plan by a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import absolute_repository
from lakesweep.cli.lifecycle.show import LifecyclePlan
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions, Yes
from lakesweep.cli.sweep.apply import Quarantine, carry_out

BytesAtOnce = Annotated[
    bool,
    typer.Option(
        "--bytes-at-once",
        help="Also delete expired objects that HEADs hold, at once, and leave their paths on the"
        " branches: readers get an error for them.",
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
    """Delete the objects of a plan, except those that something needs now.

    Guards come first; if one fails, the command ends with code 3 and deletes nothing. Then
    everything staged is read again, with all commits that are new or newly referenced by a branch
    or tag: the objects they hold are kept. The repository is checked repeatedly while objects are
    deleted. If a rule has expire_heads, expired paths are first removed from the HEAD of their
    branch, by a commit that is merged into it, and their objects are deleted by the next run. A
    branch with staged changes is not touched. A plan can be applied once. If a run was stopped or
    died, the same command resumes it.
    """
    from lakesweep.operations.lakes.apply import ApplyPlanRequest
    from lakesweep.sweep.plan.document import PlanKind

    request = ApplyPlanRequest(
        absolute_repository(plan),
        PlanKind.LIFECYCLE,
        engine.of(context),
        pace.rate,
        quarantine,
        bytes_at_once,
        tuple(override or ()),
        dry_run,
    )
    carry_out(context, request, yes=yes)
