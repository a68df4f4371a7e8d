"""`lakesweep paimon files`: list what a table references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import TolerantFlag, tolerance_of
from lakesweep.cli.outcomes import tell_problems
from lakesweep.cli.paimon.table_options import TableAddress, open_table
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakesweep.paimon.model.table import PaimonTable


def files(
    context: Context,
    table: TableAddress,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Only the newest snapshot of a branch."),
    ] = None,
    snapshot: Annotated[
        int | None,
        typer.Option("--snapshot", metavar="ID", help="Only what this snapshot reads."),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="NAME", help="Only what this tag reads.")
    ] = None,
    tolerant: TolerantFlag = False,
) -> None:
    """Every file that a table reaches, once.

    Of all branches: snapshots, tags and changelogs, schemas, consumers and hints, manifest lists,
    manifests and index manifests with all that they name, statistics, sidecars and packs. Manifests
    may still name files that have been deleted since.

    With --snapshot or --tag, only the live data, extra and index files of that state; --branch
    says of which branch.
    """
    from lakesweep.paimon.reach.walk import reached_files

    found = open_table(context, table)
    if snapshot is not None or tag is not None or branch is not None:
        if tolerant:
            raise UsageError("--tolerant is for all files of a table, not for those of one state")
        context.output.files(_state_files(found, branch or "main", snapshot, tag))
        return
    tolerance = tolerance_of(tolerant)
    context.output.files(reached_files(found, tolerance))
    tell_problems(context, tolerance)


def _state_files(
    table: PaimonTable, branch: str, snapshot: int | None, tag: str | None
) -> Iterator[pa.RecordBatch]:
    from lakesweep.paimon.reach.live_files import state_files

    if snapshot is not None and tag is not None:
        raise UsageError("give --snapshot or --tag, not both")
    chosen = table.find_branch(branch)
    if tag is not None:
        return state_files(chosen, chosen.tag(tag).snapshot)
    number = chosen.latest_id() if snapshot is None else snapshot
    return iter(()) if number is None else state_files(chosen, chosen.snapshot(number))
