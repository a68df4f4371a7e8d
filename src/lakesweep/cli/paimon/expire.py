"""`lakesweep paimon expire-snapshots`, `expire-changelogs` and `expire-tags`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, Yes
from lakesweep.cli.paimon.table_options import (
    BranchName,
    TableAddress,
    Zone,
    open_table,
    parse_zone,
)
from lakesweep.cli.render.output import TextTable
from lakesweep.errors import IncompleteError
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.units import format_count, format_moment, format_size, parse_moment

if TYPE_CHECKING:
    from datetime import datetime

    from lakesweep.paimon.expire.expiry import Expiry, ExpiryOutcome, ExpiryPlan
    from lakesweep.paimon.expire.retention import RetentionLimits
    from lakesweep.paimon.model.options import Options
    from lakesweep.paimon.model.table import PaimonBranch

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


@dataclass(frozen=True)
class RetentionOptions:
    """What a call says of how many stay; the rest is as the table's options say."""

    retain_max: RetainMax = None
    retain_min: RetainMin = None
    older_than: OlderThan = None
    limit: Limit = None

    def retention(
        self,
        context: Context,
        branch: PaimonBranch,
        said: Callable[[Options, datetime], RetentionLimits],
    ) -> RetentionLimits:
        """What the options of a branch say, overridden by what the call says."""
        from lakesweep.paimon.expire.retention import RetentionOverrides as Given

        now = context.clock.now()
        cut = None if self.older_than is None else parse_moment(self.older_than, now)
        given = Given(self.retain_min, self.retain_max, cut, self.limit)
        return given.over(said(branch.layout.options, now))


@dataclass(frozen=True)
class ExpiryOptions:
    """Of which branch, and whether in earnest."""

    branch: BranchName = "main"
    dry_run: DryRun = False
    yes: Yes = False
    override: Overrides = None


@dataclass(frozen=True)
class _Words:
    """How an expiry is spoken of, and what its document says besides files."""

    noun: str
    kind: PaimonKind
    counted: str
    facts: Mapping[str, object]

    def document(self, count: int) -> dict[str, object]:
        """How many expired, and what is left."""
        return {"expired_snapshots": 0, self.counted: count, **self.facts}


def expire_snapshots(
    context: Context,
    table: TableAddress,
    keeping: RetentionOptions,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> None:
    """Let old snapshots of a table go, with the files that only they need.

    What is not given here is as the table's options snapshot.num-retained.min and so on say. A file
    stays while any other snapshot, tag, changelog or branch needs it. Snapshots that a consumer
    still wants stay. Changelogs outlive their snapshots where the table's options say so. What will
    go is written down in the table's folder first: the next run finishes what is interrupted.
    """
    from lakesweep.paimon.expire.retention import snapshot_retention
    from lakesweep.paimon.expire.snapshot_expiry import choose_snapshots

    branch = open_table(context, table).find_branch(running.branch)
    retention = keeping.retention(context, branch, snapshot_retention)
    _say_retention(context, branch, retention, "snapshot")
    chosen = choose_snapshots(branch, retention)
    left = {"earliest": chosen.earliest, "latest": chosen.latest}
    words = _Words("snapshot", PaimonKind.SNAPSHOT, "expired_snapshots", left)
    _expire(context, branch, chosen, words, pace, running)


def expire_changelogs(
    context: Context,
    table: TableAddress,
    keeping: RetentionOptions,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> None:
    """Let old changelogs go that outlived their snapshots, with the files that only they need.

    What is not given here is as the table's options changelog.num-retained.min and so on say. They
    are counted from the latest snapshot on. The newest always stays, and so do those that consumers
    still want.
    """
    from lakesweep.paimon.expire.retention import changelog_retention
    from lakesweep.paimon.expire.snapshot_expiry import choose_changelogs

    branch = open_table(context, table).find_branch(running.branch)
    retention = keeping.retention(context, branch, changelog_retention)
    _say_retention(context, branch, retention, "changelog")
    chosen = choose_changelogs(branch, retention)
    left = {"earliest": chosen.earliest, "latest": chosen.latest}
    words = _Words("changelog", PaimonKind.CHANGELOG_META, "expired_changelogs", left)
    _expire(context, branch, chosen, words, pace, running)


def expire_tags(
    context: Context,
    table: TableAddress,
    pace: RateLimitOptions,
    running: ExpiryOptions,
    older_than: Annotated[
        str | None,
        _option("--older-than", "TIME", "Also tags that have no time to live and are older."),
    ] = None,
    zone: Zone = "UTC",
) -> None:
    """Let tags go whose time to live has passed, with the files that only they need.

    A tag that has a time to live stays until then. One that has none is as old as its file.
    """
    from lakesweep.paimon.expire.tag_expiry import TagRule, choose_tags

    branch = open_table(context, table).find_branch(running.branch)
    now = context.clock.now()
    cut = None if older_than is None else parse_moment(older_than, now)
    chosen = choose_tags(branch, TagRule(now, parse_zone(zone), cut))
    ids = branch.snapshot_ids()
    left = {
        "tags": chosen.names,
        "earliest": min(ids, default=None),
        "latest": max(ids, default=None),
    }
    words = _Words("tag", PaimonKind.TAG, "expired_tags", left)
    _expire(context, branch, chosen, words, pace, running)


def _expire(
    context: Context,
    branch: PaimonBranch,
    expiry: Expiry,
    words: _Words,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> None:
    from lakesweep.paimon.expire.expiry import apply_expiry, plan_expiry
    from lakesweep.paimon.model.warehouse import check_copies

    table = branch.table
    if "foreign" not in (running.override or ()):
        check_copies(table)
    with plan_expiry(table, expiry, progress=context.progress) as plan:
        count = format_count(len(expiry.leaving), words.noun)
        _say_plan(context, plan, count)
        if running.dry_run:
            _show_dry_run(context, plan, words)
            return
        if plan.total_files:
            files = format_count(plan.total_files, "file")
            question = f"Expire {count} of {table.address.path}, {files}?"
            context.confirm(question, yes=running.yes)
        delete = pace.deleter(table.stores, context)
        outcome = apply_expiry(plan, delete, progress=context.progress)
        _show_outcome(context, outcome, words)


def _say_retention(
    context: Context, branch: PaimonBranch, retention: RetentionLimits, noun: str
) -> None:
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
        **words.document(plan.files[words.kind]),
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
        **words.document(outcome.deleted[words.kind]),
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
    context.output.result(
        document, TextTable(("deleted", "files"), rows, numbers=frozenset({"files"}))
    )
    for failure in outcome.tally.failures[:_SHOWN_FAILURES]:
        context.output.say(f"{failure.path}: {failure.reason}")
    if outcome.tally.failed:
        context.output.say("the next run tries what is left again")
        raise typer.Exit(IncompleteError.exit_code)
