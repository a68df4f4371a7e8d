"""The commands that look at lakes: `plan`, `show`, `explain`, `check` and `runs`."""

from __future__ import annotations

import typer

from lakesweep.cli.options import command
from lakesweep.cli.plan import plan

_PLAN = "plan-20260101T000000-5c2f81aa"


def add_sweep(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(
        app,
        "plan",
        examples=[
            "lakesweep plan prod",
            "lakesweep plan prod --grace 30d --bloom",
            "lakesweep plan prod --inventory s3://logs/lake/daily/2026-01-01T01-00Z/manifest.json",
            "lakesweep plan laptop --engine local",
        ],
    )(plan)
