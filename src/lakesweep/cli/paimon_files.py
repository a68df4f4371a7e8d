"""`lakesweep paimon files`: what a table reaches."""

from __future__ import annotations

from lakesweep.cli.context import Context
from lakesweep.cli.paimon_tables import TableAddress, open_table
from lakesweep.cli.tolerating import TolerantFlag, tell_problems, tolerance_of


def files(context: Context, table: TableAddress, tolerant: TolerantFlag = False) -> None:
    """Every file that a table reaches, once.

    Of all branches: snapshots, tags and changelogs, schemas, consumers and hints, manifest lists,
    manifests and index manifests with all that they name, statistics, sidecars and packs. Manifests
    may still name files that have been deleted since.
    """
    from lakesweep.paimon.reach import reached_files

    tolerance = tolerance_of(tolerant)
    context.output.files(reached_files(open_table(context, table), tolerance))
    tell_problems(context, tolerance)
