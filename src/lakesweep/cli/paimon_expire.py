"""`lakesweep paimon expire-snapshots`, `expire-changelogs` and `expire-tags`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.output import Table
from lakesweep.cli.paimon_tables import TableAddress, open_table
from lakesweep.cli.purging import Pace
from lakesweep.cli.zones import Zone, parse_zone
from lakesweep.errors import IncompleteError
from lakesweep.paimon.kinds import Kind
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.paimon.removal import Expiry, ExpiryOutcome, ExpiryPlan
    from lakesweep.paimon.retention import Overrides, Retention
    from lakesweep.paimon.table import Branch

_PANEL = "Retention"
_SHOWN_FAILURES = 20
_ANY = 2**31 - 1


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


RetainMax = Annotated[
    int | None, _option("--retain-max", "N", "Keep at most this many, whatever their age.")
]
RetainMin = Annotated[
    int | None, _option("--retain-min", "N", "Keep at least this many, 1 or more.")
]
OlderThan = Annotated[
    str | None,
    _option("--older-than", "TIME", "Of the others only those: 7d ago, or an RFC 3339 time."),
]
Limit = Annotated[int | None, _option("--limit", "N", "Let at most this many go at a time.")]
BranchName = Annotated[
    str, typer.Option("--branch", metavar="NAME", help="Of this branch of the table.")
]


@dataclass(frozen=True)
class Keeping:
    """What a call says of how many stay; the rest is as the table's options say."""

    retain_max: RetainMax = None
    retain_min: RetainMin = None
    older_than: OlderThan = None
    limit: Limit = None

    def overrides(self, context: Context) -> Overrides:
        from lakesweep.paimon.retention import Overrides
        from lakesweep.units import parse_moment

        now = context.clock.now()
        cut = None if self.older_than is None else parse_moment(self.older_than, now)
        return Overrides(self.retain_min, self.retain_max, cut, self.limit)


@dataclass(frozen=True)
class _Words:
    """How an expiry is spoken of, and what its document says besides files."""

    noun: str
    kind: Kind
    facts: Callable[[int], Mapping[str, object]]


def expire_snapshots(
    context: Context,
    table: TableAddress,
    keeping: Keeping,
    pace: Pace,
    branch: BranchName = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let old snapshots of a table go, with the files that only they need.

    What is not given here is as the table's options snapshot.num-retained.min and so on say. A file
    stays while any other snapshot, tag, changelog or branch needs it. Snapshots that a consumer
    still wants stay. Changelogs outlive their snapshots where the table's options say so. What will
    go is written down in the table's folder first: the next run finishes what is interrupted.
    """
    from lakesweep.paimon.expiring import choose_snapshots
    from lakesweep.paimon.retention import snapshot_retention

    at = open_table(context, table).branch(branch)
    table_says = snapshot_retention(at.layout.options, context.clock.now())
    retention = keeping.overrides(context).over(table_says)
    _say_retention(context, at, retention, "snapshot")
    chosen = choose_snapshots(at, retention)

    def facts(count: int) -> Mapping[str, object]:
        return {
            "expired_snapshots": count,
            "earliest": chosen.earliest,
            "latest": chosen.latest,
        }

    words = _Words("snapshot", Kind.SNAPSHOT, facts)
    _expire(context, at, chosen, words, pace, dry_run=dry_run, yes=yes)


def expire_changelogs(
    context: Context,
    table: TableAddress,
    keeping: Keeping,
    pace: Pace,
    branch: BranchName = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let old changelogs go that outlived their snapshots, with the files that only they need.

    What is not given here is as the table's options changelog.num-retained.min and so on say. They
    are counted from the latest snapshot on. The newest always stays, and so do those that consumers
    still want.
    """
    from lakesweep.paimon.changelog_expiry import choose_changelogs
    from lakesweep.paimon.retention import changelog_retention

    at = open_table(context, table).branch(branch)
    table_says = changelog_retention(at.layout.options, context.clock.now())
    retention = keeping.overrides(context).over(table_says)
    _say_retention(context, at, retention, "changelog")
    chosen = choose_changelogs(at, retention)

    def facts(count: int) -> Mapping[str, object]:
        return {
            "expired_snapshots": 0,
            "expired_changelogs": count,
            "earliest": chosen.earliest,
            "latest": chosen.latest,
        }

    words = _Words("changelog", Kind.CHANGELOG_META, facts)
    _expire(context, at, chosen, words, pace, dry_run=dry_run, yes=yes)


def expire_tags(
    context: Context,
    table: TableAddress,
    pace: Pace,
    older_than: Annotated[
        str | None,
        _option("--older-than", "TIME", "Also tags that have no time to live and are older."),
    ] = None,
    branch: BranchName = "main",
    zone: Zone = "UTC",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let tags go whose time to live has passed, with the files that only they need.

    A tag that has a time to live stays until then. One that has none is as old as its file.
    """
    from lakesweep.paimon.tag_expiry import TagRule, choose_tags
    from lakesweep.units import parse_moment

    at = open_table(context, table).branch(branch)
    now = context.clock.now()
    cut = None if older_than is None else parse_moment(older_than, now)
    chosen = choose_tags(at, TagRule(now, parse_zone(zone), cut))

    def facts(count: int) -> Mapping[str, object]:
        ids = at.snapshot_ids()
        return {
            "expired_snapshots": 0,
            "expired_tags": count,
            "tags": chosen.names,
            "earliest": ids[0] if ids else None,
            "latest": ids[-1] if ids else None,
        }

    words = _Words("tag", Kind.TAG, facts)
    _expire(context, at, chosen, words, pace, dry_run=dry_run, yes=yes)


def _expire(
    context: Context,
    branch: Branch,
    expiry: Expiry,
    words: _Words,
    pace: Pace,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from lakesweep.paimon.removal import carry_out, plan_expiry

    table = branch.table
    with plan_expiry(table, expiry, progress=context.progress) as plan:
        count = format_count(len(expiry.leaving), words.noun)
        _say_plan(context, plan, count)
        if dry_run:
            _show_dry_run(context, plan, words)
            return
        if plan.total_files:
            files = format_count(plan.total_files, "file")
            context.confirm(f"Expire {count} of {table.address.path}, {files}?", yes=yes)
        delete = pace.deleter(table.stores, context)
        outcome = carry_out(plan, delete, progress=context.progress)
        _show_outcome(context, outcome, words)


def _say_retention(context: Context, branch: Branch, retention: Retention, noun: str) -> None:
    bounds = f"at least {retention.retain_min:,}"
    if retention.retain_max < _ANY:
        bounds += f" and at most {retention.retain_max:,}"
    context.output.say(
        f"{branch.table.address.path}, branch {branch.name}: {bounds} {noun}s stay, among them "
        f"all from {format_moment(retention.cut)} on; at most {retention.limit:,} go at a time"
    )


def _say_plan(context: Context, plan: ExpiryPlan, count: str) -> None:
    say = context.output.say
    say(f"{count} to expire")
    for kind, files in sorted(plan.files.items()):
        if files:
            say(_line(files, kind, plan.bytes[kind]))
    say(_line(plan.total_files, "in all", plan.total_bytes))
    if plan.unfinished:
        runs = format_count(len(plan.unfinished), "interrupted run")
        say(f"what {runs} left behind is among it")


def _line(files: int, what: str, size_bytes: int) -> str:
    size = format_size(size_bytes) if size_bytes else "-"
    return f"  {files:>12,}  {what:<22} {size:>8}"


def _show_dry_run(context: Context, plan: ExpiryPlan, words: _Words) -> None:
    document = {
        **words.facts(plan.files[words.kind]),
        "deleted": {kind.value: files for kind, files in plan.files.items() if files},
        "bytes_deleted": plan.total_bytes,
        "failures": [],
        "dry_run": True,
    }
    context.output.report(document, plan.all_batches())
    if plan.total_files:
        context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")


def _show_outcome(context: Context, outcome: ExpiryOutcome, words: _Words) -> None:
    tally = outcome.tally.document()
    document = {
        **words.facts(outcome.deleted[words.kind]),
        "deleted": {kind.value: files for kind, files in outcome.deleted.items()},
        "bytes_deleted": tally["bytes_deleted"],
        "failures": tally["failures"],
        "failures_omitted": tally["failures_omitted"],
        "absent": tally["absent"],
        "folders_removed": outcome.folders,
        "dry_run": False,
    }
    rows = [(kind.value, f"{files:,}") for kind, files in sorted(outcome.deleted.items())]
    rows.append(("freed", format_size(outcome.tally.bytes_deleted)))
    context.output.result(document, Table(("deleted", "files"), rows, numbers=frozenset({"files"})))
    for failure in outcome.tally.failures[:_SHOWN_FAILURES]:
        context.output.say(f"{failure.path}: {failure.reason}")
    if outcome.tally.failed:
        context.output.say("the next run tries what is left again")
        raise typer.Exit(IncompleteError.exit_code)
