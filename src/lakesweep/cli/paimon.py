"""`lakesweep paimon`: what a Paimon table reaches, and cleaning it."""

from __future__ import annotations

from lakesweep.cli.options import command, group
from lakesweep.cli.paimon_files import files

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
