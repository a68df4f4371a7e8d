"""`lakesweep files`: list stored files, and purge those that filters select."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.files.filter_options import FilterOptions
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, Yes
from lakesweep.cli.outcomes import protected_text, show_purge
from lakesweep.units import absolute_address, format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.tables.files import PurgeFilesPreview

Uris = Annotated[
    list[str],
    typer.Argument(
        metavar="URI…",
        help="Locations: s3://bucket/folder, gs://…, abfss://…, or a local folder.",
        show_default=False,
    ),
]

app = group(
    "files",
    "List stored files, and purge those that filters select.",
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
    """List the files stored at and below some addresses.

    An address is a folder: t1 never means t10. Patterns match the path below the address; a
    pattern without a slash matches file names in any folder. Kinds are guessed from names.
    """
    from lakesweep.operations.tables.files import ListFilesRequest, list_files

    locations = tuple(map(absolute_address, uris))
    request = ListFilesRequest(locations, filters.parse(context.clock.now()))
    context.output.files(list_files(context.app, request))


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
    override: Overrides = None,
) -> None:
    """Delete the files that the filters select, except those that a root references.

    All files are listed and counted first, and exactly those are deleted. A filter never selects
    a file whose value is unknown, such as an age without a modification time. Files that a root of
    any configured lake references are kept; --override referenced deletes them too. Lakesweep's
    own files are always kept.
    """
    from lakesweep.operations.tables.files import PurgeFilesRequest, purge_files

    def confirm(preview: PurgeFilesPreview) -> None:
        files = format_count(preview.files, "file")
        context.output.say(f"{files}, {format_size(preview.size_bytes)}")
        if preview.protected:
            context.output.say(f"warning: {protected_text(preview.protected)}")
        if preview.files and not dry_run:
            context.confirm(f"Delete {files}?", yes=yes)

    locations = tuple(map(absolute_address, uris))
    selected = filters.parse(context.clock.now())
    overrides = frozenset(override or ())
    request = PurgeFilesRequest(locations, selected, pace.rate, dry_run, overrides)
    show_purge(context, purge_files(context.app, request, confirm, context.io))
