"""Options that filter files by age, pattern, size and kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lakesweep.operations.tables.files import FileFilters

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
