"""`lakesweep lifecycle plan`: judge every object by a policy. Deletes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import RepositoryName, absolute_repository
from lakesweep.cli.options import EngineChoice, Overrides
from lakesweep.cli.sweep.plan import report_plan
from lakesweep.errors import ConfigError, UsageError
from lakesweep.units import absolute_address, parse_duration

if TYPE_CHECKING:
    from lakesweep.lifecycle.judge.commit_selection import Selection


class CommitSelection(StrEnum):
    """The values of `commit_selection.Selection`, which takes too long to import for --help."""

    FULL = "full"
    INCREMENTAL = "incremental"
    REQUIREMENT = "requirement"


@dataclass(frozen=True)
class PolicyOptions:
    """How a policy is read, and which commits it is applied to."""

    policy: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The policy: a JSON, YAML or TOML file.", show_default=False
        ),
    ]
    mode: Annotated[
        CommitSelection | None,
        typer.Option(
            help="Check all commits, only those that may be new since the last complete run, or"
            " those that the rule of the original proposal selects, which misses some."
            "  [default: full]",
            show_default=False,
        ),
    ] = None
    as_proposed: Annotated[
        bool,
        typer.Option(
            "--as-proposed",
            help="Follow the original proposal step by step: prefixes match as text, objects on"
            " HEADs expire too, and what commits of earlier runs hold is kept.",
        ),
    ] = False
    floor: Annotated[
        int,
        typer.Option(min=1, metavar="DAYS", help="Ask before rules with fewer days than this."),
    ] = 7
    branch_grace: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Keep what a deleted branch held for this long."),
    ] = "7d"
    place: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Write plans, tables and quarantined objects here instead of"
            " _lakefs/retention/lc in the namespace.",
            show_default=False,
        ),
    ] = None
    tags_protect_history: Annotated[
        bool,
        typer.Option(
            "--tags-protect-history", help="Let tags keep all ancestors of their commits too."
        ),
    ] = False


def plan(
    context: Context,
    repo: RepositoryName,
    wanted: PolicyOptions,
    engine: EngineChoice,
    override: Overrides = None,
) -> None:
    """Find the objects that a policy expires. Writes a plan and deletes nothing.

    An object is deleted only if every commit that names it is covered by a rule and due. Objects
    that a HEAD, a tag or a staged change holds are kept, and so are those no rule covers. Then
    guards check the result, as in lakesweep plan. If something cannot be read, the command ends
    with code 4 and no plan is made.
    """
    from lakesweep.operations.lakes.plan import PlanRepositoryRequest, plan_repository

    request = PlanRepositoryRequest(
        absolute_repository(repo),
        _read(wanted.policy),
        str(wanted.policy),
        _selection(wanted),
        wanted.floor,
        parse_duration(wanted.branch_grace),
        None if wanted.place is None else absolute_address(wanted.place),
        wanted.tags_protect_history,
        engine.of(context),
        tuple(override or ()),
        wanted.as_proposed,
    )
    report_plan(context, plan_repository(context.app, request, context.io))


def _selection(wanted: PolicyOptions) -> Selection:
    from lakesweep.lifecycle.judge.commit_selection import Selection

    if wanted.as_proposed and wanted.mode not in (None, CommitSelection.REQUIREMENT):
        raise UsageError(
            f"--as-proposed selects commits by its own rule, not by --mode {wanted.mode}",
            hint="leave --mode out",
        )
    return Selection((wanted.mode or CommitSelection.FULL).value)


def _read(policy: Path) -> bytes:
    from lakesweep.lifecycle.policy.parser import MOST_BYTES

    try:
        with policy.open("rb") as file:
            return file.read(MOST_BYTES + 1)  # the parser refuses the last byte
    except OSError as error:
        raise ConfigError(
            f"the policy {policy} cannot be read: {error.strerror}",
            hint="name a policy file, such as policy.json",
        ) from error
