"""`lakesweep paimon files`: list the files that a table reaches."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import TolerantFlag
from lakesweep.cli.outcomes import say_problems
from lakesweep.cli.paimon.table_options import TableAddress
from lakesweep.units import absolute_address


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
    """List every file that a table reaches, once.

    Covers all branches: snapshots, tags and changelogs, schemas, consumers and hints, manifest
    lists, manifests and index manifests with the files that they name, statistics, sidecars and
    packs. Manifests may name files that have been deleted since.

    With --snapshot or --tag, only the live data, extra and index files of that state; --branch
    says of which branch.
    """
    from lakesweep.operations.tables.paimon_tables import PaimonFilesRequest, paimon_files

    request = PaimonFilesRequest(absolute_address(table), branch, snapshot, tag, tolerant)
    found = paimon_files(context.app, request)
    context.output.files(found.batches)
    say_problems(context, found.problems)
