"""`lakesweep paimon`: what a Paimon table reaches, and cleaning it."""

from __future__ import annotations

from lakesweep.cli.options import command, group
from lakesweep.cli.paimon_files import files
from lakesweep.cli.paimon_partitions import drop_partition, expire_partitions

app = group(
    "paimon",
    "What a Paimon table reaches, and cleaning it.",
    examples=["lakesweep paimon files s3://lake/paimon/shop.db/orders"],
)
command(
    app,
    "files",
    examples=[
        "lakesweep paimon files s3://lake/paimon/shop.db/orders",
        "lakesweep paimon files shop.db/orders --json",
        "lakesweep paimon files shop.db/orders --tolerant",
    ],
)(files)
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
