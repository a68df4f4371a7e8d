"""`lakesweep iceberg`: list what a table or view references, and purge it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import (
    DryRun,
    Overrides,
    RateLimitOptions,
    TolerantFlag,
    Yes,
    tolerance_of,
)
from lakesweep.cli.outcomes import PurgeOutcome, tell_problems
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    import pyarrow as pa

    from lakesweep.iceberg.known_tables import TargetTable
    from lakesweep.iceberg.purge import PurgePlan
    from lakesweep.marks.unreadable import Tolerance
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals

_REF = "catalog.namespace.table, or the address of a metadata JSON."

app = group(
    "iceberg",
    "What an Iceberg table or view reaches, and purging it.",
    examples=[
        "lakesweep iceberg files prod.shop.orders",
        "lakesweep iceberg purge prod.shop.orders --dry-run",
    ],
)


@command(
    app,
    "files",
    examples=[
        "lakesweep iceberg files prod.shop.orders",
        "lakesweep iceberg files prod.shop.orders prod.shop.events --unique --json",
        "lakesweep iceberg files s3://lake/t/metadata/00003-5c2f.metadata.json",
    ],
)
def files(
    context: Context,
    refs: Annotated[list[str], typer.Argument(metavar="REF…", help=_REF, show_default=False)],
    unique: Annotated[
        bool, typer.Option("--unique", help="Each file once, whatever names it.")
    ] = False,
    tolerant: TolerantFlag = False,
) -> None:
    """Every file that a table or view reaches.

    Metadata, manifest lists of all snapshots of all branches and tags, manifests, data files,
    delete files, deletion vectors and statistics. A file that several manifests name comes several
    times unless --unique is given; that keeps 128-bit hashes in memory, and on disk beyond 256 MB.
    """
    from lakesweep.storage.datasets.unique_files import unique_files

    tolerance = tolerance_of(tolerant)
    batches = _reached(context, refs, tolerance)
    context.output.files(unique_files(batches) if unique else batches)
    tell_problems(context, tolerance)


def _reached(context: Context, refs: list[str], tolerance: Tolerance) -> Iterator[pa.RecordBatch]:
    from lakesweep.iceberg.reach import reached_files

    for ref in refs:
        target = context.app.iceberg.find(ref)
        yield from reached_files(target.stores, target.metadata, tolerance)


@command(
    app,
    "purge",
    examples=[
        "lakesweep iceberg purge prod.shop.orders --dry-run",
        "lakesweep iceberg purge prod.shop.orders --drop --yes",
        "lakesweep iceberg purge prod.shop.orders --base-location",
    ],
)
def purge(
    context: Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help=_REF, show_default=False)],
    pace: RateLimitOptions,
    base_location: Annotated[
        bool,
        typer.Option("--base-location", help="Delete all that is stored below its location."),
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop the name from the catalog before deleting.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Delete a table or view with all that it reaches.

    Files go children before parents and the metadata last, so an interrupted purge can be repeated.
    Files that another table of a configured catalog reaches are left alone. A table whose
    gc.enabled is false is refused without --override gc.enabled.
    """
    from lakesweep.iceberg.purge import execute_purge, tally_problems

    target = context.app.iceberg.find(ref)
    overrides = frozenset(override or ())
    planned = context.app.iceberg.plan_purge(
        target, base_location=base_location, overrides=overrides
    )
    with planned as plan:
        _show_plan(context, target, plan)
        if dry_run:
            _outcome(plan, tally_problems(plan), dry_run=True).show(context)
            return
        files = format_count(plan.total_files, "file")
        context.confirm(f"Delete {files} of {target.name}?", yes=yes)
        context.app.iceberg.check_unchanged(target, plan, overrides=overrides)
        if drop:
            context.app.iceberg.drop(target)
        tally = execute_purge(plan, pace.deleter(target.stores, context), progress=context.progress)
        _say_what_is_left(context, target, tally, dropped=drop)
        _outcome(plan, tally).show(context)


def _outcome(plan: PurgePlan, tally: OutcomeTotals, *, dry_run: bool = False) -> PurgeOutcome:
    return PurgeOutcome(tally, plan.total_files, plan.total_bytes, plan.protected, dry_run)


def _show_plan(context: Context, target: TargetTable, plan: PurgePlan) -> None:
    say = context.output.say
    say(f"{target.name}: Iceberg {target.what}, format v{target.metadata.format_version}")
    say(f"  location  {target.metadata.location}")
    say(f"  metadata  {target.metadata.path}")
    for kind, count in sorted(plan.files.items()):
        say(_total(count, kind, plan.bytes[kind]))
    say(_total(plan.total_files, "in all", plan.total_bytes))
    for warning in _warnings(plan):
        say(f"warning: {warning}")


def _total(count: int, what: str, size_bytes: int) -> str:
    size = format_size(size_bytes) if size_bytes else "-"
    return f"  {count:>12,}  {what:<22} {size:>8}"


def _warnings(plan: PurgePlan) -> Iterator[str]:
    if plan.outside:
        yield f"{format_count(plan.outside, 'file')} outside the table's own folders would go too"
    for claim in plan.overlapping:
        yield f"{claim.name} keeps files in an overlapping folder: {claim.folders[0]}"
    if plan.protected:
        yield f"{format_count(plan.protected, 'file')} left alone: another table needs them"
    yield from map(str, plan.problems)


def _say_what_is_left(
    context: Context, target: TargetTable, tally: OutcomeTotals, *, dropped: bool
) -> None:
    if dropped and tally.failed:
        context.output.say(f"to repeat it: lakesweep iceberg purge {target.metadata.path}")
    if target.entry is not None and not dropped:
        context.output.say(
            f"the catalog still lists {target.name}; drop it there, or use --drop next time"
        )
