"""`lakesweep store bench`: measure how many commits per second a database takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.bench import BenchResult


def bench(
    context: Context,
    choice: StoreChoice,
    writers: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many processes commit at once.")
    ] = 8,
    commits: Annotated[int, typer.Option(min=1, metavar="N", help="Commits per writer.")] = 500,
    references: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Spread the writers over N references; 1 is the hardest."
        ),
    ] = 1,
    threads: Annotated[
        bool, typer.Option("--threads", help="Use threads of one process instead of processes.")
    ] = False,
) -> None:
    """Measure how many commits per second the database takes.

    Each commit writes an object and a head, and swaps a reference. The benchmark runs in a realm of
    its own, which is deleted afterwards. Ends with code 4 if a commit failed or is not in the log.
    """
    from lakesweep.bench import CommitLoad, run_bench
    from lakesweep.redaction import masked

    app = choice.app(context)
    app.prepare_store()
    url, load = app.store_url, CommitLoad(writers, commits, references)
    context.output.say(
        f"{format_count(load.total, 'commit')} by {format_count(writers, 'writer')} "
        f"to {format_count(references, 'reference')} in {masked(url)}"
    )
    result = run_bench(url, load, threads=threads, clock=context.clock, progress=context.progress)
    document = {"database": masked(url), **asdict(result)}
    context.output.result(document, _table(result))
    if not result.is_good:
        raise _incomplete(result)


def _table(result: BenchResult) -> TextTable:
    rows = [
        ("commits", f"{result.commits:,}"),
        ("failures", f"{result.failures:,}"),
        ("seconds", f"{result.seconds:.1f}"),
        ("commits per second", f"{result.commits_per_second:,.0f}"),
        ("p50", _milliseconds(result.p50_ms)),
        ("p99", _milliseconds(result.p99_ms)),
        ("longest", _milliseconds(result.max_ms)),
        ("attempts per commit", _number(result.attempts_per_commit)),
        ("log", "complete and in order" if result.log_complete else "NOT complete"),
    ]
    return TextTable(("measured", ""), rows, numbers=frozenset({""}))


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _incomplete(result: BenchResult) -> IncompleteError:
    if result.failures:
        why = f": {result.errors[0]}" if result.errors else ""
        return IncompleteError(
            f"{format_count(result.failures, 'commit')} failed{why}",
            hint="try fewer writers, or more references",
        )
    return IncompleteError(
        "all commits succeeded, but the log does not hold each of them once and in order",
        hint="do not use this database for a store; report this with its name and version",
    )
