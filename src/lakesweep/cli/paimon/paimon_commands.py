"""`lakesweep paimon`: the group, and `files`, which lists the files that a table reaches."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import TolerantFlag
from lakesweep.cli.outcomes import say_problems
from lakesweep.cli.paimon.expire import expire_changelogs, expire_snapshots, expire_tags
from lakesweep.cli.paimon.orphans import orphans
from lakesweep.cli.paimon.partitions import drop_partition, expire_partitions
from lakesweep.cli.paimon.table_options import TableAddress, Threads
from lakesweep.units import absolute_address

app = group(
    "paimon",
    "List what Paimon tables reach, and clean them up.",
    examples=["lakesweep paimon files s3://lake/paimon/shop.db/orders"],
)


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
    threads: Threads = None,
) -> None:
    """List every file that a table reaches, once.

    Covers all branches: snapshots, tags and changelogs, schemas, consumers and hints, manifest
    lists, manifests and index manifests with the files that they name, statistics, sidecars and
    packs. Manifests may name files that have been deleted since.

    With --snapshot or --tag, only the live data, extra and index files of that state; --branch
    says of which branch.
    """
    from lakesweep.operations.tables.paimon_tables import PaimonFilesRequest, paimon_files

    request = PaimonFilesRequest(absolute_address(table), branch, snapshot, tag, tolerant, threads)
    found = paimon_files(context.app, request)
    context.output.files(found.batches)
    say_problems(context, found.problems)


command(
    app,
    "files",
    examples=[
        "lakesweep paimon files s3://lake/paimon/shop.db/orders",
        "lakesweep paimon files shop.db/orders --json",
        "lakesweep paimon files shop.db/orders --branch dev --tag v1",
        "lakesweep paimon files shop.db/orders --tolerant",
    ],
)(files)


command(
    app,
    "orphans",
    examples=[
        "lakesweep paimon orphans s3://lake/paimon/shop.db/orders --dry-run",
        "lakesweep paimon orphans s3://lake/paimon --older-than 3d --yes",
        "lakesweep paimon orphans s3://lake/paimon --engine spark --yes",
    ],
)(orphans)


command(
    app,
    "expire-partitions",
    examples=[
        "lakesweep paimon expire-partitions shop.db/orders --dry-run",
        "lakesweep paimon expire-partitions shop.db/orders --expiration-time 30d --yes",
        "lakesweep paimon expire-partitions clicks --pattern '$dt $hr' --formatter 'yyyyMMdd HH'",
    ],
)(expire_partitions)


command(
    app,
    "drop-partition",
    examples=[
        "lakesweep paimon drop-partition shop.db/orders dt=2026-01-31 --dry-run",
        "lakesweep paimon drop-partition shop.db/clicks dt=2026-01-31,hr=05 dt=2026-02-01 --yes",
    ],
)(drop_partition)


command(
    app,
    "expire-snapshots",
    examples=[
        "lakesweep paimon expire-snapshots shop.db/orders --dry-run",
        "lakesweep paimon expire-snapshots shop.db/orders --retain-min 5 --older-than 7d --yes",
        "lakesweep paimon expire-snapshots shop.db/orders --retain-max 100 --branch dev --yes",
        "lakesweep paimon expire-snapshots s3://lake/paimon/shop.db/orders --engine spark --yes",
    ],
)(expire_snapshots)


command(
    app,
    "expire-changelogs",
    examples=[
        "lakesweep paimon expire-changelogs shop.db/orders --dry-run",
        "lakesweep paimon expire-changelogs shop.db/orders --retain-min 1 --retain-max 50 --yes",
    ],
)(expire_changelogs)


command(
    app,
    "expire-tags",
    examples=[
        "lakesweep paimon expire-tags shop.db/orders --dry-run",
        "lakesweep paimon expire-tags shop.db/orders --older-than 90d --yes",
    ],
)(expire_tags)
