"""`lakesweep lifecycle`: the group and its commands."""

from __future__ import annotations

from lakesweep.cli.commands import command, group
from lakesweep.cli.lifecycle.apply import apply
from lakesweep.cli.lifecycle.explain import explain
from lakesweep.cli.lifecycle.plan import plan
from lakesweep.cli.lifecycle.repository import entries, refs
from lakesweep.cli.lifecycle.show import show

_PLAN = "plan-20260101T000000-5c2f81aa"

app = group(
    "lifecycle",
    "What lakeFS repositories hold, and how long it lives.",
    examples=[
        "lakesweep lifecycle plan analytics --policy policy.json",
        "lakesweep lifecycle show analytics",
        "lakesweep lifecycle apply analytics --quarantine",
        "lakesweep lifecycle refs analytics",
    ],
)
command(
    app,
    "refs",
    examples=[
        "lakesweep lifecycle refs analytics",
        "lakesweep lifecycle refs s3://lake/repos/analytics --json",
    ],
)(refs)
command(
    app,
    "entries",
    examples=[
        "lakesweep lifecycle entries analytics main",
        "lakesweep lifecycle entries s3://lake/repos/analytics v1 --json",
        "lakesweep lifecycle entries analytics 4a60f1411cf7",
    ],
)(entries)
command(
    app,
    "plan",
    examples=[
        "lakesweep lifecycle plan analytics --policy policy.json",
        "lakesweep lifecycle plan analytics --policy policy.toml --mode incremental",
        "lakesweep lifecycle plan s3://lake/repos/old --policy policy.json --override staged",
    ],
)(plan)
command(
    app,
    "show",
    examples=[
        f"lakesweep lifecycle show {_PLAN}",
        "lakesweep lifecycle show analytics --verdict delete",
        "lakesweep lifecycle show analytics --files --json | gzip > plan.jsonl.gz",
    ],
)(show)
command(
    app,
    "explain",
    examples=[
        f"lakesweep lifecycle explain {_PLAN} data/gk1v0u/cvq3a2s2o7lc73e8ufdg",
        "lakesweep lifecycle explain analytics events/2026/01/part-0.parquet --json",
    ],
)(explain)
command(
    app,
    "apply",
    examples=[
        f"lakesweep lifecycle apply {_PLAN} --dry-run",
        f"lakesweep lifecycle apply {_PLAN} --quarantine --yes",
        f"lakesweep lifecycle apply {_PLAN} --override first-run --yes",
    ],
)(apply)
