"""`lakesweep files`: list what is stored, and purge what filters select."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.files.filter_options import FilterOptions
from lakesweep.cli.options import DryRun, RateLimitOptions, Yes, absolute_address
from lakesweep.cli.outcomes import PurgeOutcome
from lakesweep.errors import RefusedError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakesweep.storage.datasets.spool import Spool
    from lakesweep.storage.deleting.bulk_delete import Deleter
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
    from lakesweep.storage.listing.filters import Filter

Uris = Annotated[
    list[str],
    typer.Argument(
        metavar="URI…",
        help="Where to look: s3://bucket/folder, gs://…, abfss://…, or a local folder.",
        show_default=False,
    ),
]

app = group(
    "files",
    "What is stored in buckets and folders, and deleting what filters select.",
    examples=[
        "lakesweep files list s3://lake/warehouse --older-than 30d",
        "lakesweep files purge s3://lake/tmp --glob '**/_temporary/**' --dry-run",
    ],
)


@command(
    app,
    "list",
    examples=[
        "lakesweep files list s3://lake/warehouse",
        "lakesweep files list s3://lake/warehouse --glob '*.parquet' --min-size 1GB",
        "lakesweep files list ./warehouse --older-than 7d --json",
    ],
)
def list_(
    context: Context,
    uris: Uris,
    filters: FilterOptions,
) -> None:
    """Everything that is stored at and below some addresses.

    An address is a folder: t1 never means t10. Patterns match the path below the address; one
    without a slash matches the file's name in any folder. Kinds are guessed from names.
    """
    context.output.files(_selected(context, uris, filters.build(context)))


@command(
    app,
    "purge",
    examples=[
        "lakesweep files purge s3://lake/tmp --older-than 7d --dry-run",
        "lakesweep files purge s3://lake/tmp --older-than 7d --yes --files-per-second 1000",
    ],
)
def purge(
    context: Context,
    uris: Uris,
    filters: FilterOptions,
    pace: RateLimitOptions,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete what the filters select.

    Everything is listed and counted first; what is then deleted is exactly what was counted. What
    no filter can judge, such as the age of a file whose time is unknown, is never selected.
    """
    from lakesweep.storage.datasets.spool import Spool
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
    from lakesweep.units import format_count, format_size

    _refuse_root(uris)
    with Spool() as spool:
        _find(context, uris, filters.build(context), spool)
        files = format_count(spool.files, "file")
        context.output.say(f"{files}, {format_size(spool.size_bytes)}")
        if dry_run or not spool.files:
            PurgeOutcome(OutcomeTotals(), spool.files, spool.size_bytes, dry_run=dry_run).show(
                context
            )
            return
        context.confirm(f"Delete {files}?", yes=yes)
        tally = _delete(context, spool, pace.deleter(context.app.stores, context))
        PurgeOutcome(tally, spool.files, spool.size_bytes).show(context)


def _find(context: Context, uris: list[str], filters: Filter, spool: Spool) -> None:
    from lakesweep.storage.datasets.unique_files import unique_files

    with context.progress.task("found") as task:
        for batch in unique_files(_selected(context, uris, filters)):
            spool.add(batch)
            task.advance(batch.num_rows)


def _delete(context: Context, spool: Spool, delete: Deleter) -> OutcomeTotals:
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals

    tally = OutcomeTotals()
    with context.progress.task("deleted", total=spool.files) as task:
        for outcome in delete(spool.batches()):
            tally.add(outcome)
            task.advance(outcome.num_rows)
    return tally


def _selected(context: Context, uris: list[str], filters: Filter) -> Iterator[pa.RecordBatch]:
    from lakesweep.iceberg.file_kinds import kinds_by_name
    from lakesweep.storage.file_batches import FILE_SCHEMA
    from lakesweep.storage.listing.locations import list_files

    for location in map(absolute_address, uris):
        for batch in list_files(context.app.stores, location):
            kinds = kinds_by_name(batch["path"])
            named = batch.set_column(1, FILE_SCHEMA.field("kind"), kinds)
            yield from _filtered(named, location, filters)


def _filtered(batch: pa.RecordBatch, location: str, filters: Filter) -> Iterator[pa.RecordBatch]:
    """The rows that pass; the object that the location itself names is seen from its folder."""
    from pyarrow import compute as pc

    is_itself = pc.equal(batch["path"], location)
    yield filters.apply(batch.filter(is_itself), location.rpartition("/")[0])
    yield filters.apply(batch.filter(pc.invert(is_itself)), location)


def _refuse_root(uris: list[str]) -> None:
    from lakesweep.storage.address import StoreKind, parse

    for uri in uris:
        address = parse(absolute_address(uri))
        if address.kind is StoreKind.FILE and not address.key.strip("/."):
            raise RefusedError(
                "root",
                f"{uri!r} is the whole file system; nothing was deleted",
                hint="name a folder",
            )
