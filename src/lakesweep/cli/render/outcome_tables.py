"""Show what is about to be deleted, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.storage.deleting.outcome_totals import FailedFile

_SHOWN_FAILURES = 20


def dry_run_hint(done: str = "deleted") -> str:
    """The last line of a dry run that found something to do."""
    return f"nothing was {done}; run the same with --yes in place of --dry-run"


def outcome_table(figures: Mapping[str, int | str], *, heading: str = "outcome") -> TextTable:
    """How many files had which outcome; a text, such as a size, is shown unchanged."""
    rows = [
        (name, figure if isinstance(figure, str) else f"{figure:,}")
        for name, figure in figures.items()
    ]
    return TextTable((heading, "files"), rows, numbers=frozenset({"files"}))


def failure_lines(failures: Sequence[FailedFile], omitted: int = 0) -> Iterator[str]:
    """The first failures by name, and how many more there are."""
    for failure in failures[:_SHOWN_FAILURES]:
        yield f"{failure.path}: {failure.reason}"
    more = len(failures) - _SHOWN_FAILURES + omitted
    if more > 0:
        yield f"and {more:,} more failures"


def kind_lines(files: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[str]:
    """Files by kind with their sizes, and the totals last."""
    for kind, count in sorted(files.items()):
        if count:
            yield _kind_line(count, kind, sizes.get(kind, 0))
    yield _kind_line(sum(files.values()), "in all", sum(sizes.values()))


def _kind_line(count: int, what: str, size_bytes: int) -> str:
    size = format_size(size_bytes) if size_bytes else "-"
    return f"  {count:>12,}  {what:<22} {size:>8}"
