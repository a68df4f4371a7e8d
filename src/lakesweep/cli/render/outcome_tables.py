"""Show what is about to be deleted, and the outcome of each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.apply import ApplyPlanResult, ApplyPreview
    from lakesweep.storage.deleting.outcome_totals import FailedFile


_SHOWN_FAILURES = 20
_SHOWN_BRANCHES = 20


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
    """The first failures, equal ones as one line with their number, and how many more there are."""
    alike: dict[str, list[str]] = {}
    for failure in failures:
        # Some reasons repeat the path, which alone would make them differ.
        reason = failure.reason.replace(f"{failure.path}: ", "")
        alike.setdefault(reason, []).append(failure.path)
    shown = list(islice(alike.items(), _SHOWN_FAILURES))
    for reason, paths in shown:
        others = f" and {format_count(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
        yield f"{paths[0]}{others}: {reason}"
    more = len(failures) - sum(len(paths) for _, paths in shown) + omitted
    if more > 0:
        yield f"and {format_count(more, 'more failure')}"


def kind_lines(files: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[str]:
    """Files by kind with their sizes, and the totals last."""
    for kind, count in sorted(files.items()):
        if count:
            yield _kind_line(count, kind, sizes.get(kind, 0))
    yield _kind_line(sum(files.values()), "in all", sum(sizes.values()))


def _kind_line(count: int, what: str, size_bytes: int) -> str:
    size = format_size(size_bytes) if size_bytes else "-"
    return f"  {count:>12,}  {what:<22} {size:>8}"


def size_text(preview: ApplyPreview) -> str:
    """What is deleted or quarantined, in words."""
    return f"{format_count(preview.files, 'file')}, {format_size(preview.bytes)}"


def question_of(preview: ApplyPreview) -> str:
    """What a person is asked before an apply acts."""
    if preview.rewrite:
        return f"commit the result of {preview.rewrite}?"
    size = size_text(preview)
    return f"quarantine {size}?" if preview.quarantine else f"delete {size} permanently?"


def _what(preview: ApplyPreview) -> str:
    if preview.rewrite:
        return f"{preview.rewrite} commits a new snapshot and deletes no file"
    return f"{size_text(preview)} to {'quarantine' if preview.quarantine else 'delete'}"


def preview_lines(preview: ApplyPreview) -> Iterator[str]:
    """What an apply is about to do, in words."""
    yield f"plan {preview.plan} of lake {preview.lake}: {_what(preview)}"
    for each in preview.branches[:_SHOWN_BRANCHES]:
        yield f"{format_count(each.paths, 'path')} to remove from branch {each.name}, by a commit"
    if (more := len(preview.branches) - _SHOWN_BRANCHES) > 0:
        yield f"and from {more:,} more {'branch' if more == 1 else 'branches'}"
    for guard in preview.withheld:
        files = f", about {format_count(guard.files, 'file')}" if guard.files else ""
        yield f"withheld{files}: {guard.name}: {guard.message}"
    if preview.waiting_files:
        size = format_size(preview.waiting_bytes)
        files = format_count(preview.waiting_files, "file")
        yield f"{files}, {size} wait for the next run, when no branch holds them any more"


def apply_tables(result: ApplyPlanResult) -> Iterator[TextTable]:
    """The outcome: files by outcome, and paths removed from branches."""
    yield TextTable(("outcome", "files"), list(_rows(result)), numbers=frozenset({"files"}))
    changed = [each for each in result.branches or () if not each.reason]
    if changed:
        rows = [(each.branch, f"{each.paths:,}") for each in changed[:_SHOWN_BRANCHES]]
        yield TextTable(("branch", "paths removed"), rows, numbers=frozenset({"paths removed"}))


def _rows(result: ApplyPlanResult) -> Iterator[tuple[str, str]]:
    yield "found", f"{result.found:,}"
    yield "deleted", f"{result.deleted:,}"
    if result.quarantined:
        yield "quarantined", f"{result.quarantined:,}"
    if isinstance(result.changed, int):
        yield "changed", f"{result.changed:,}"
    yield "absent", f"{result.absent:,}"
    yield "failed", f"{result.failed:,}"
    if isinstance(result.waiting, int):
        yield "waiting for the next run", f"{result.waiting:,}"
    for guard, files in (result.withheld or {}).items():
        yield f"withheld by {guard}", f"{files:,}"
    yield "kept after all", f"{result.kept_by_remark:,}"
    yield "freed", format_size(result.bytes_deleted)
