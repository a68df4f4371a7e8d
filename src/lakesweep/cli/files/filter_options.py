"""Options that select files: age, pattern, size, kind."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.storage.listing.filters import Filter

_PANEL = "Filters"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


OlderThan = Annotated[
    str | None,
    _option("--older-than", "TIME", "Modified before: 7d ago, or an RFC 3339 time."),
]
NewerThan = Annotated[str | None, _option("--newer-than", "TIME", "Modified after that time.")]
Glob = Annotated[
    list[str] | None,
    _option("--glob", "PATTERN", "Matching this: *, **, ?, [a-z], {a,b}. Repeatable."),
]
Exclude = Annotated[
    list[str] | None, _option("--exclude", "PATTERN", "Not matching this. Repeatable.")
]
Regex = Annotated[str | None, _option("--regex", "RE2", "Holding a match of this expression.")]
MinSize = Annotated[str | None, _option("--min-size", "SIZE", "At least 10MB, 1GiB …")]
MaxSize = Annotated[str | None, _option("--max-size", "SIZE", "At most this size.")]
Kinds = Annotated[
    list[str] | None,
    _option("--kind", "KIND", "Of this kind, such as data or manifest. Repeatable."),
]


@dataclass(frozen=True)
class FilterOptions:
    """The options as they were given."""

    older_than: OlderThan = None
    newer_than: NewerThan = None
    glob: Glob = None
    exclude: Exclude = None
    regex: Regex = None
    min_size: MinSize = None
    max_size: MaxSize = None
    kind: Kinds = None

    def build(self, context: Context) -> Filter:
        """One filter of them all; wrong words are refused."""
        from lakesweep.storage.listing import filters
        from lakesweep.units import parse_moment, parse_size

        now = context.clock.now()
        result = filters.glob(self.glob or ()) & filters.exclude(self.exclude or ())
        if self.older_than is not None:
            result &= filters.older_than(parse_moment(self.older_than, now))
        if self.newer_than is not None:
            result &= filters.newer_than(parse_moment(self.newer_than, now))
        if self.regex is not None:
            result &= filters.regex(self.regex)
        if self.min_size is not None:
            result &= filters.min_size(parse_size(self.min_size))
        if self.max_size is not None:
            result &= filters.max_size(parse_size(self.max_size))
        return result & filters.kind(_known(self.kind)) if self.kind else result


def _known(kinds: list[str]) -> list[str]:
    from lakesweep.iceberg.file_kinds import IcebergKind

    names = [kind.value for kind in IcebergKind]
    for kind in kinds:
        if kind not in names:
            near = get_close_matches(kind, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(names)}"
            raise UsageError(f"there is no kind {kind!r}", hint=advice)
    return kinds
