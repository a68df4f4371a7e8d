"""`lakesweep iceberg expire-snapshots`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.iceberg.table_choice import TableOptions, show_each, show_plans
from lakesweep.cli.options import ManifestEngine, RateLimitOptions
from lakesweep.cli.outcomes import protected_text, say_failures
from lakesweep.cli.render.expiry_tables import expiry_tables, standing_lines
from lakesweep.cli.render.outcome_tables import dry_run_hint, kind_lines, outcome_table
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import (
    absolute_address,
    format_count,
    format_size,
    parse_duration,
    parse_moment,
)

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.expiry_result import (
        ExpireTablesRequest,
        IcebergExpiryPreview,
        IcebergExpiryResult,
    )
    from lakesweep.storage.datasets.spool import Spool

_PANEL = "Retention"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class SnapshotRetention:
    """What to retain; options that are not given come from the table."""

    older_than: Annotated[
        str | None,
        _option(
            "--older-than",
            "TIME",
            "Expire only what is older than 7d (ago), or an RFC 3339 time.",
        ),
    ] = None
    retain_last: Annotated[
        int | None,
        _option("--retain-last", "N", "Keep this many of each branch, whatever their age."),
    ] = None
    snapshot_id: Annotated[
        list[int] | None,
        _option("--snapshot-id", "ID", "Expire this snapshot; alone, only these. Repeatable."),
    ] = None
    keep_staged: Annotated[
        bool,
        typer.Option(
            "--keep-staged",
            help="Keep snapshots that were staged for an audit and not published.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    writer_age: Annotated[
        str,
        _option(
            "--writer-age",
            "TIME",
            "A streaming writer that has not committed for this long keeps no history.",
        ),
    ] = "7d"
    limit: Annotated[
        int | None, _option("--limit", "N", "Expire at most this many, the oldest first.")
    ] = None
    clean_expired_metadata: Annotated[
        bool,
        typer.Option(
            "--clean-expired-metadata",
            help="Also remove schemas and partition specs that nothing uses any more.",
            rich_help_panel=_PANEL,
        ),
    ] = False


@dataclass(frozen=True)
class ExpirySubject(TableOptions):
    """Which tables, and whether files are deleted."""

    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Change metadata only; delete no file.")
    ] = False
    metadata_out: Annotated[
        str | None,
        typer.Option(
            "--metadata-out",
            metavar="FILE",
            help="Where to write the new metadata, for the REF of a metadata file.",
        ),
    ] = None
    files: Annotated[
        bool, typer.Option("--files", help="List the files to delete, or deleted.")
    ] = False
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine", help="Move files to quarantine, from where they can be restored."
        ),
    ] = False
    engine: ManifestEngine = EngineName.LOCAL


def expire_snapshots(
    context: Context,
    keeping: SnapshotRetention,
    subject: ExpirySubject,
    pace: RateLimitOptions,
    refs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REF…",
            help="catalog.namespace.table, or the address of a metadata JSON.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Expire old snapshots, and delete the files that only they hold.

    Options that are not given come from the table's own history.expire.* properties; those of a
    branch or tag come before all others. A file stays while any other snapshot, or any root of any
    configured lake, references it. --dry-run shows what each snapshot and ref alone holds, and why
    each one that stays does. A journal is written before the commit, and the store vouches for it:
    the next run finishes an interrupted one.
    """
    from lakesweep.operations.upkeep.expiry_plans import plan_expiries, quarantine_tables
    from lakesweep.operations.upkeep.iceberg_expiry import expire_tables

    request = _request(context, keeping, subject, pace, refs or [])
    is_single = len(request.refs) == 1 and not (request.catalog or request.lake)
    if subject.plan:
        show_plans(context, plan_expiries(context.app, request, context.io), single=is_single)
        return
    with ExitStack() as stack:
        spool = _open_spool(stack) if subject.files else None
        confirm = _confirm(context, subject, spool)
        is_held = subject.quarantine and not subject.dry_run
        expire = quarantine_tables if is_held else expire_tables
        found = expire(context.app, request, confirm, context.io)
        show_each(context, found, partial(_show, context, spool), single=is_single)


def _request(
    context: Context,
    keeping: SnapshotRetention,
    subject: ExpirySubject,
    pace: RateLimitOptions,
    refs: list[str],
) -> ExpireTablesRequest:
    from lakesweep.iceberg.table_identifier import is_address
    from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest
    from lakesweep.upkeep.proposal import ExpiryTerms
    from lakesweep.upkeep.snapshot_retention import RetentionArguments

    subject.check(refs)
    files = [ref for ref in refs if is_address(ref) and ".metadata.json" in ref]
    if files and subject.metadata_out is None and not subject.dry_run:
        raise UsageError(
            f"no catalog holds the pointer to {files[0]}",
            hint="name the table as catalog.namespace.table, or add --metadata-out FILE",
        )
    now = context.clock.now()
    cut = None if keeping.older_than is None else parse_moment(keeping.older_than, now)
    ids = tuple(keeping.snapshot_id or ())
    is_aged = cut is not None or keeping.retain_last is not None
    arguments = RetentionArguments(
        older_than_ms=None if cut is None else -(-int(cut.timestamp() * 1_000_000) // 1000),
        retain_last=keeping.retain_last,
        snapshot_ids=ids,
        only_ids=bool(ids) and not is_aged,
        keep_staged=keeping.keep_staged,
        marker_age=parse_duration(keeping.writer_age),
        limit=keeping.limit,
    )
    out = subject.metadata_out
    return ExpireTablesRequest(
        refs=tuple(refs),
        catalog=subject.catalog,
        lake=subject.lake,
        terms=ExpiryTerms(arguments, keeping.clean_expired_metadata),
        keep_files=subject.keep_files,
        metadata_out=None if out is None else absolute_address(out),
        rate=pace.rate,
        overrides=frozenset(subject.override or ()),
        dry_run=subject.dry_run,
        engine=subject.engine,
    )


def _open_spool(stack: ExitStack) -> Spool:
    from lakesweep.storage.datasets.spool import Spool

    return stack.enter_context(Spool())


def _confirm(
    context: Context, subject: ExpirySubject, spool: Spool | None
) -> Callable[[IcebergExpiryPreview], None]:
    def confirm(preview: IcebergExpiryPreview) -> None:
        _say_preview(context, preview)
        if spool is not None:
            for batch in preview.batches():
                spool.add(batch)
        if preview.changes_metadata and not subject.dry_run:
            snapshots = format_count(len(preview.decision.expiring), "snapshot")
            files = format_count(preview.total_files, "file")
            context.confirm(
                f"Expire {snapshots} of {preview.planned.table}, {files}?",
                yes=subject.yes,
                refused="nothing was expired",
            )

    return confirm


def _say_preview(context: Context, preview: IcebergExpiryPreview) -> None:
    say, planned = context.output.say, preview.planned
    kept = format_count(len(planned.retained_snapshots), "snapshot")
    expiring = format_count(len(planned.expired_snapshots), "snapshot")
    say(f"{planned.table}: {expiring} to expire, {kept} to keep")
    for line in standing_lines(preview.decision):
        say(line)
    if preview.total_files:
        for line in kind_lines(planned.deleted, preview.bytes):
            say(line)
    if planned.protected:
        say(f"warning: {protected_text(planned.protected)}")
    if preview.outside:
        say(f"warning: {format_count(preview.outside, 'file')} outside the table's own folders")
    for guard in planned.guards or ():
        say(f"guard {guard.name}: {guard.message}")
    if preview.unfinished:
        say(f"{format_count(preview.unfinished, 'interrupted run')} to finish first")


def _show(context: Context, spool: Spool | None, result: IcebergExpiryResult) -> int:
    """Show what became of a table; the exit code."""
    output = context.output
    if spool is not None:
        output.report(result, spool.batches())
    elif result.dry_run:
        output.result(result, *expiry_tables(result))
    else:
        figures: dict[str, int | str] = dict(sorted(result.deleted.items()))
        figures["freed"] = format_size(result.bytes_deleted)
        if result.quarantined:
            figures = dict(sorted(result.quarantined.items()))
            output.say(f"undo: lakesweep quarantine restore {result.plan}")
        heading = "quarantined" if result.quarantined else "deleted"
        output.result(result, outcome_table(figures, heading=heading))
    say_failures(context, result.failures, result.failures_omitted or 0)
    if result.failures:
        output.say("the next run retries the failed deletes")
    if result.dry_run and (result.expired_snapshots or result.removed_refs):
        output.say(dry_run_hint("expired"))
    return 0 if result.is_complete else IncompleteError.exit_code
