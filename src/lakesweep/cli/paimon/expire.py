"""`lakesweep paimon expire-snapshots`, `expire-changelogs` and `expire-tags`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, ManifestEngine, Overrides, RateLimitOptions, Yes
from lakesweep.cli.outcomes import say_failures
from lakesweep.cli.paimon.table_options import (
    BranchName,
    SettleTime,
    TableAddress,
    Threads,
    Zone,
    parse_zone,
)
from lakesweep.cli.render.outcome_tables import dry_run_hint, kind_lines, outcome_table
from lakesweep.errors import IncompleteError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import (
    absolute_address,
    format_count,
    format_size,
    parse_duration,
    parse_moment,
)

if TYPE_CHECKING:
    from lakesweep.operations.tables.paimon_expiry import (
        ExpireHistoryRequest,
        ExpiryPreview,
        ExpiryResult,
    )
    from lakesweep.paimon.expire.retention import RetentionOverrides

_PANEL = "Retention"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


RetainMax = Annotated[
    int | None, _option("--retain-max", "N", "Keep at most this many, whatever their age.")
]
RetainMin = Annotated[
    int | None, _option("--retain-min", "N", "Keep at least this many; 1 or more.")
]
OlderThan = Annotated[
    str | None,
    _option(
        "--older-than",
        "TIME",
        "Expire only what is older than 7d (ago), or an RFC 3339 time.",
    ),
]
Limit = Annotated[int | None, _option("--limit", "N", "Expire at most this many at a time.")]


@dataclass(frozen=True)
class RetentionOptions:
    """What to retain; options that are not given come from the table."""

    retain_max: RetainMax = None
    retain_min: RetainMin = None
    older_than: OlderThan = None
    limit: Limit = None

    def parse(self, now: datetime) -> RetentionOverrides:
        """The options as operations take them; `now` is what ages are counted from."""
        from lakesweep.paimon.expire.retention import RetentionOverrides

        cut = None if self.older_than is None else parse_moment(self.older_than, now)
        return RetentionOverrides(self.retain_min, self.retain_max, cut, self.limit)


@dataclass(frozen=True)
class ExpiryOptions:
    """Which branch, how it is read, and whether to delete."""

    branch: BranchName = "main"
    engine: ManifestEngine = EngineName.LOCAL
    threads: Threads = None
    settle: SettleTime = "10s"
    dry_run: DryRun = False
    yes: Yes = False
    override: Overrides = None

    @property
    def overrides(self) -> frozenset[str]:
        return frozenset(self.override or ())


def expire_snapshots(
    context: Context,
    table: TableAddress,
    keeping: RetentionOptions,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> None:
    """Expire old snapshots, and delete the files that only they need.

    Options that are not given come from the table's own snapshot.num-retained.min and so on. A file
    stays while any other snapshot, tag, changelog or branch needs it. Snapshots that a consumer
    has still to read stay. Changelogs outlive their snapshots if the table's options say so. A
    journal is written first, and the store vouches for it: the next run with the same store
    finishes an interrupted one.
    """
    from lakesweep.operations.tables import paimon_expiry

    request = _history_request(context, table, keeping, pace, running)
    confirm = _confirm(context, running)
    _show(context, paimon_expiry.expire_snapshots(context.app, request, confirm, context.io))


def expire_changelogs(
    context: Context,
    table: TableAddress,
    keeping: RetentionOptions,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> None:
    """Expire changelogs that outlived their snapshots, and delete the files that only they need.

    Options that are not given come from the table's own changelog.num-retained.min and so on.
    Changelogs are counted from the latest snapshot. The newest always stays, and so do those that
    a consumer has still to read.
    """
    from lakesweep.operations.tables import paimon_expiry

    request = _history_request(context, table, keeping, pace, running)
    confirm = _confirm(context, running)
    _show(context, paimon_expiry.expire_changelogs(context.app, request, confirm, context.io))


def expire_tags(
    context: Context,
    table: TableAddress,
    pace: RateLimitOptions,
    running: ExpiryOptions,
    older_than: Annotated[
        str | None,
        _option("--older-than", "TIME", "Also expire older tags that have no retention time."),
    ] = None,
    zone: Zone = "UTC",
) -> None:
    """Expire tags whose retention time has passed, and delete the files that only they need.

    A tag with a retention time stays until then. A tag without one is as old as its file.
    """
    from lakesweep.operations.tables import paimon_expiry

    now = context.clock.now()
    request = paimon_expiry.ExpireTagsRequest(
        table=absolute_address(table),
        branch=running.branch,
        older_than=None if older_than is None else parse_moment(older_than, now),
        zone=parse_zone(zone),
        rate=pace.rate,
        settle=parse_duration(running.settle),
        overrides=running.overrides,
        dry_run=running.dry_run,
        engine=running.engine,
        threads=running.threads,
    )
    confirm = _confirm(context, running)
    _show(context, paimon_expiry.expire_tags(context.app, request, confirm, context.io))


def _history_request(
    context: Context,
    table: str,
    keeping: RetentionOptions,
    pace: RateLimitOptions,
    running: ExpiryOptions,
) -> ExpireHistoryRequest:
    from lakesweep.operations.tables.paimon_expiry import ExpireHistoryRequest

    return ExpireHistoryRequest(
        table=absolute_address(table),
        branch=running.branch,
        retention=keeping.parse(context.clock.now()),
        rate=pace.rate,
        settle=parse_duration(running.settle),
        overrides=running.overrides,
        dry_run=running.dry_run,
        engine=running.engine,
        threads=running.threads,
    )


def _confirm(context: Context, running: ExpiryOptions) -> Callable[[ExpiryPreview], None]:
    def confirm(preview: ExpiryPreview) -> None:
        owners = format_count(preview.owners, preview.noun)
        _say_preview(context, preview, owners)
        if running.dry_run:
            context.output.report(preview.planned, preview.batches())
        elif preview.total_files:
            files = format_count(preview.total_files, "file")
            context.confirm(f"Expire {owners} of {preview.table}, {files}?", yes=running.yes)

    return confirm


def _say_preview(context: Context, preview: ExpiryPreview, owners: str) -> None:
    say = context.output.say
    say(f"{owners} to expire")
    for line in kind_lines(preview.planned.deleted, preview.bytes):
        say(line)
    if preview.unfinished:
        runs = format_count(preview.unfinished, "interrupted run")
        say(f"this includes what {runs} left behind")


def _show(context: Context, result: ExpiryResult) -> None:
    """Show what was deleted; a dry run has shown it while the preview was open."""
    if result.dry_run:
        if result.deleted:
            context.output.say(dry_run_hint())
        return
    figures: dict[str, int | str] = dict(sorted(result.deleted.items()))
    figures["freed"] = format_size(result.bytes_deleted)
    context.output.result(result, outcome_table(figures, heading="deleted"))
    say_failures(context, result.failures, result.failures_omitted or 0)
    if not result.is_complete:
        context.output.say("the next run retries the failed deletes")
        raise typer.Exit(IncompleteError.exit_code)
