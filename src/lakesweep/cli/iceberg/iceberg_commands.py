"""`lakesweep iceberg`: the group; list the files that a table or view reaches, and purge it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.iceberg.expire import expire_snapshots
from lakesweep.cli.iceberg.upkeep import (
    expire_partitions,
    remove_dangling_deletes,
    rewrite_manifests,
    trim_metadata,
)
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, TolerantFlag, Yes
from lakesweep.cli.outcomes import protected_text, say_problems, show_purge
from lakesweep.cli.render.outcome_tables import kind_lines
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.operations.tables.iceberg import PurgedTable, PurgeTablePreview

_REF = "catalog.namespace.table, or the address of a metadata JSON."

app = group(
    "iceberg",
    "List the files that Iceberg tables and views reach, purge them, and expire snapshots.",
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
        bool, typer.Option("--unique", help="List each file once, even if several manifests do.")
    ] = False,
    tolerant: TolerantFlag = False,
) -> None:
    """List every file that a table or view reaches.

    Metadata, manifest lists of all snapshots of all branches and tags, manifests, data files,
    delete files, deletion vectors and statistics. A file that several manifests name is listed
    several times unless --unique is given; that keeps 128-bit hashes in memory, and on disk beyond
    256 MB.
    """
    from lakesweep.operations.tables.iceberg import IcebergFilesRequest, iceberg_files

    found = iceberg_files(context.app, IcebergFilesRequest(tuple(refs), unique, tolerant))
    context.output.files(found.batches)
    say_problems(context, found.problems)


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
        typer.Option("--base-location", help="Delete everything stored below its location."),
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop the name from the catalog before deleting.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Delete a table or view with every file that it reaches.

    Files are deleted children first and the metadata last, so an interrupted purge can be repeated.
    Files that a root of any configured lake or another table of a known catalog references are
    kept, and so is what a lake excludes. Files outside the folder in which the table's metadata
    lies are refused without --override outside, a table inside one of another format without
    --override foreign, and a table whose gc.enabled is false without --override gc.enabled.
    """
    from lakesweep.operations.tables.iceberg import PurgeTableRequest, purge_table

    def confirm(preview: PurgeTablePreview) -> None:
        _say_preview(context, preview)
        if not dry_run:
            files = format_count(preview.total_files, "file")
            context.confirm(f"Delete {files} of {preview.name}?", yes=yes)

    overrides = frozenset(override or ())
    request = PurgeTableRequest(ref, base_location, drop, pace.rate, overrides, dry_run)
    purged = purge_table(context.app, request, confirm, context.io)
    _say_what_is_left(context, purged)
    show_purge(context, purged.result)


command(
    app,
    "expire-snapshots",
    examples=[
        "lakesweep iceberg expire-snapshots prod.shop.orders --dry-run",
        "lakesweep iceberg expire-snapshots prod.shop.orders --older-than 7d --retain-last 10",
        "lakesweep iceberg expire-snapshots --catalog prod --yes",
    ],
)(expire_snapshots)

command(
    app,
    "expire-partitions",
    examples=[
        "lakesweep iceberg expire-partitions prod.shop.log --column at --older-than 90d --dry-run",
        "lakesweep iceberg expire-partitions --lake prod --column day --older-than 365d --yes",
    ],
)(expire_partitions)

command(
    app,
    "trim-metadata",
    examples=[
        "lakesweep iceberg trim-metadata prod.shop.orders --dry-run",
        "lakesweep iceberg trim-metadata --catalog prod --keep 50 --yes",
    ],
)(trim_metadata)

command(
    app,
    "rewrite-manifests",
    examples=[
        "lakesweep iceberg rewrite-manifests prod.shop.orders --dry-run",
        "lakesweep iceberg rewrite-manifests --lake prod --yes",
    ],
)(rewrite_manifests)

command(
    app,
    "remove-dangling-deletes",
    examples=["lakesweep iceberg remove-dangling-deletes prod.shop.orders --dry-run"],
)(remove_dangling_deletes)


def _say_preview(context: Context, preview: PurgeTablePreview) -> None:
    say = context.output.say
    say(f"{preview.name}: Iceberg {preview.what}, format v{preview.format_version}")
    say(f"  location  {preview.location}")
    say(f"  metadata  {preview.metadata}")
    for line in kind_lines(preview.files, preview.bytes):
        say(line)
    for warning in _warnings(preview):
        say(f"warning: {warning}")


def _warnings(preview: PurgeTablePreview) -> Iterator[str]:
    if preview.outside:
        count = format_count(preview.outside, "file")
        yield f"{count} to delete outside the table's own folders"
    for other in preview.overlapping:
        yield f"{other.name} keeps files in an overlapping folder: {other.folder}"
    if preview.protected:
        yield protected_text(preview.protected)
    yield from map(str, preview.problems)


def _say_what_is_left(context: Context, purged: PurgedTable) -> None:
    if purged.is_dropped and not purged.result.is_complete:
        context.output.say(f"to repeat the purge: lakesweep iceberg purge {purged.metadata}")
    if purged.is_listed and not purged.result.dry_run:
        context.output.say(
            f"the catalog still lists {purged.name}; drop it there, or use --drop next time"
        )
