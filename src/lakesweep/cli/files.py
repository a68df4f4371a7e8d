"""`lakesweep files`: list stored files, and purge those that filters select."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, Yes
from lakesweep.cli.outcomes import protected_text, show_purge
from lakesweep.units import absolute_address, format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.tables.files import FileFilters, PurgeFilesPreview


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
_PANEL = "Filters"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


OlderThan = Annotated[
    str | None,
    _option(
        "--older-than",
        "TIME",
        "Modified before: 7d (ago), or an RFC 3339 time.",
    ),
]
NewerThan = Annotated[
    str | None,
    _option("--newer-than", "TIME", "Modified after: 7d (ago), or a time."),
]
Glob = Annotated[
    list[str] | None,
    _option("--glob", "PATTERN", "Path matches: *, **, ?, [a-z], {a,b}. Repeatable."),
]
Exclude = Annotated[
    list[str] | None, _option("--exclude", "PATTERN", "Path does not match. Repeatable.")
]
Regex = Annotated[str | None, _option("--regex", "RE2", "Path matches this expression.")]
MinSize = Annotated[str | None, _option("--min-size", "SIZE", "At least this size: 10MB, 1GiB …")]
MaxSize = Annotated[str | None, _option("--max-size", "SIZE", "At most this size.")]
Kinds = Annotated[
    list[str] | None,
    _option("--kind", "KIND", "File kind, such as data or manifest. Repeatable."),
]


@dataclass(frozen=True)
class FilterOptions:
    """The filters as they were written."""

    older_than: OlderThan = None
    newer_than: NewerThan = None
    glob: Glob = None
    exclude: Exclude = None
    regex: Regex = None
    min_size: MinSize = None
    max_size: MaxSize = None
    kind: Kinds = None

    def parse(self, now: datetime) -> FileFilters:
        """The filters as operations take them; `now` is what ages are counted from."""
        from lakesweep.operations.tables.files import FileFilters
        from lakesweep.units import parse_moment, parse_size

        return FileFilters(
            older_than=None if self.older_than is None else parse_moment(self.older_than, now),
            newer_than=None if self.newer_than is None else parse_moment(self.newer_than, now),
            globs=tuple(self.glob or ()),
            excludes=tuple(self.exclude or ()),
            regex=self.regex,
            min_size_bytes=None if self.min_size is None else parse_size(self.min_size),
            max_size_bytes=None if self.max_size is None else parse_size(self.max_size),
            kinds=tuple(self.kind or ()),
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
