"""`lakesweep lifecycle plan`, `refs` and `entries`: judge a repository, or look into it.

None of them deletes anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions
from lakesweep.cli.sweep.plan import report_plan
from lakesweep.cli.sweep.unattended import report_sweep
from lakesweep.errors import ConfigError, UsageError
from lakesweep.units import absolute_address, format_count, format_moment, parse_duration

if TYPE_CHECKING:
    from lakesweep.lifecycle.judge.commit_selection import Selection
    from lakesweep.operations.lakes.repositories import RepositoryCommitLine, RepositoryRefLine
    from lakesweep.operations.lakes.repository_plan import PlanRepositoryRequest


#: Shown of an id.
_SHORT_ID = 12
RepositoryName = Annotated[
    str,
    typer.Argument(
        metavar="REPO",
        help="A repository on the configured lakeFS server, or the address of a storage namespace"
        " with a refs dump.",
        show_default=False,
    ),
]
RefName = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Branch, tag, commit id, or the beginning of one.",
        show_default=False,
    ),
]


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
    from lakesweep.operations.lakes.repository_plan import plan_repository

    request = _plan_request(repo, wanted, engine, override)
    report_plan(context, context.call(plan_repository, request, context.io))


def sweep(
    context: Context,
    repo: RepositoryName,
    wanted: PolicyOptions,
    engine: EngineChoice,
    pace: RateLimitOptions,
    override: Overrides = None,
    dry_run: DryRun = False,
) -> None:
    """Carry out a policy on a repository without asking, within [lifecycle.limits].

    Without limits every plan waits for lakesweep approve: then this command ends with code 3, and
    the next call applies what was approved. Objects go to quarantine unless the limits say
    otherwise.
    """
    from lakesweep.operations.lakes.sweep import SweepRepositoryRequest, sweep_repository

    plan = _plan_request(repo, wanted, engine, override)
    request = SweepRepositoryRequest(plan, pace.rate, dry_run)
    report_sweep(context, context.call(sweep_repository, request, context.io))


def _plan_request(
    repo: str,
    wanted: PolicyOptions,
    engine: EngineChoice,
    override: list[str] | None,
) -> PlanRepositoryRequest:
    from lakesweep.operations.lakes.repository_plan import PlanRepositoryRequest

    return PlanRepositoryRequest(
        absolute_repository(repo),
        _read(wanted.policy),
        str(wanted.policy),
        _selection(wanted),
        wanted.floor,
        parse_duration(wanted.branch_grace),
        None if wanted.place is None else absolute_address(wanted.place),
        wanted.tags_protect_history,
        engine.engine,
        tuple(override or ()),
        wanted.as_proposed,
    )


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


def absolute_repository(name: str) -> str:
    """The name of a repository or plan; a local address as an absolute one."""
    return absolute_address(name) if "/" in name else name


def refs(context: Context, repo: RepositoryName) -> None:
    """List the branches, tags and commits of a repository, the newest commits last.

    Hidden branches are included, and commits that no branch reaches any more.
    """
    from lakesweep.operations.lakes.repositories import list_refs

    found = context.call(list_refs, absolute_repository(repo))
    context.output.structs(found.lines, _text)
    branches = f"{found.branches:,} {'branch' if found.branches == 1 else 'branches'}"
    tags, commits = format_count(found.tags, "tag"), format_count(found.commits, "commit")
    context.output.say(f"{branches}, {tags}, {commits}, {found.dangling:,} of them on no branch")


def _text(line: RepositoryRefLine | RepositoryCommitLine) -> str:
    from lakesweep.operations.lakes.repositories import RepositoryRefLine

    start = f"{line.kind:<7} {line.commit[:_SHORT_ID]}"
    if isinstance(line, RepositoryRefLine):
        return f"{start}  {line.name}{'  (hidden)' if line.hidden else ''}"
    title = line.message.partition("\n")[0]
    when = format_moment(line.created.replace(microsecond=0))
    return f"{start}  {when}  {title}{'  (dangling)' if line.dangling else ''}"


def entries(context: Context, repo: RepositoryName, ref: RefName) -> None:
    """List every object of a commit: its path and its address.

    For a branch this is its HEAD, without what is staged. Addresses are shown as stored: relative
    to the namespace, or full. Every range that is read is verified by its id.
    """
    from lakesweep.cli.render.rows import EntryRows
    from lakesweep.operations.lakes.repositories import list_entries

    batches = context.call(list_entries, absolute_repository(repo), ref)
    context.output.rows(batches, EntryRows())
