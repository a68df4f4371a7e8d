"""Add the commands over whole lakes to the root, in the order in which they are used."""

from __future__ import annotations

import typer

from lakesweep.cli.commands import command
from lakesweep.cli.sweep.apply import apply
from lakesweep.cli.sweep.check import check
from lakesweep.cli.sweep.plan import plan
from lakesweep.cli.sweep.runs import lakes, runs
from lakesweep.cli.sweep.show import explain, show
from lakesweep.cli.sweep.unattended import approve, reject, sweep

_PLAN = "plan-20260101T000000-5c2f81aa"
_RUN = "apply-20260101T000500-0b7d92e3"


def add_sweep(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(
        app,
        "plan",
        remote=True,
        examples=[
            "lakesweep plan prod",
            "lakesweep plan prod --grace 30d --bloom",
            "lakesweep plan prod --inventory s3://logs/lake/daily/2026-01-01T01-00Z/manifest.json",
            "lakesweep plan laptop --engine local",
        ],
    )(plan)
    command(
        app,
        "show",
        remote=True,
        examples=[
            f"lakesweep show {_PLAN}",
            "lakesweep show prod --verdict delete --table prod.shop.orders",
            "lakesweep show prod --files --json | gzip > plan.jsonl.gz",
            "lakesweep show prod --html plan.html",
        ],
    )(show)
    command(
        app,
        "explain",
        remote=True,
        examples=[
            f"lakesweep explain {_PLAN} s3://lake/shop/orders/data/00000-0-1f.parquet",
            "lakesweep explain prod /lake/shop/orders/metadata/00003.metadata.json --json",
        ],
    )(explain)
    command(
        app,
        "apply",
        remote=True,
        examples=[
            f"lakesweep apply {_PLAN} --dry-run",
            f"lakesweep apply {_PLAN} --quarantine --yes",
            f"lakesweep apply {_PLAN} --override first-run --yes",
        ],
    )(apply)
    command(
        app,
        "check",
        remote=True,
        examples=[
            "lakesweep check prod",
            "lakesweep check prod --files --json",
            f"lakesweep check --plan {_PLAN}",
        ],
    )(check)
    command(
        app,
        "runs",
        remote=True,
        examples=[
            "lakesweep runs --lake prod --limit 5",
            f"lakesweep runs {_RUN}",
            f"lakesweep runs {_RUN} --follow",
            f"lakesweep runs {_RUN} --cancel",
        ],
    )(runs)
    command(
        app,
        "sweep",
        remote=True,
        examples=["lakesweep sweep prod", "lakesweep sweep prod --dry-run --engine local"],
    )(sweep)
    command(
        app,
        "approve",
        remote=True,
        examples=[f"lakesweep approve {_PLAN}", "lakesweep approve prod --why 'seen on Monday'"],
    )(approve)
    command(
        app,
        "reject",
        remote=True,
        examples=[f"lakesweep reject {_PLAN} --why 'orders is needed in May'"],
    )(reject)
    command(app, "lakes", remote=True, examples=["lakesweep lakes", "lakesweep lakes --json"])(
        lakes
    )
