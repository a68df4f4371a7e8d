"""The tables of the policy: what each run was told, and how far the last one that swept has come.

They are as small as the policy, so they are worked out in this process and stored as datasets.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakesweep.lifecycle.columns import BRANCH_LAST, CURRENT_RULE, POLICY_TABLE
from lakesweep.lifecycle.policy import Policy, Rule


def midnight(moment: datetime, days: int = 0) -> datetime:
    """The beginning of the UTC day that was so many days before."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=days)


def policy_table(policy: Policy, run_id: str, started: datetime) -> pa.Table:
    """What the enabled rules say on the day of a run: what is older than its date may go."""
    rows = [
        {
            "run_id": run_id,
            "rule_id": rule.id,
            "prefix": rule.prefix.text,
            "branch": branch,
            "tag": tag,
            "days": days,
            "date_to_be_deleted": midnight(started, days),
            "policy_sha256": policy.sha256,
            "started": started,
        }
        for rule in policy.rules
        for branch, tag, days in _rows(rule)
    ]
    return pa.Table.from_pylist(rows, schema=POLICY_TABLE)


def _rows(rule: Rule) -> Iterator[tuple[str | None, str | None, int]]:
    if rule.days is not None:
        yield None, None, rule.days
    for name, days in rule.branch_days:
        yield name, None, days
    for name, days in rule.tag_days:
        yield None, name, days


def current_rule(now: pa.Table, swept: pa.Table | None) -> pa.Table:
    """The rows of a run's policy table for branches, with the dates of the last run that swept.

    A rule is known again by its prefix and branch, not by its id. Where two rules of that run had
    both, the older date counts.
    """
    before: dict[tuple[str, str | None], datetime] = {}
    for row in [] if swept is None else _of_branches(swept):
        key, date = _rule_key(row), row["date_to_be_deleted"]
        before[key] = min(date, before.get(key, date))
    rows = [{**row, "last_deleted": before.get(_rule_key(row))} for row in _of_branches(now)]
    chosen = [{name: row[name] for name in CURRENT_RULE.names} for row in rows]
    return pa.Table.from_pylist(chosen, schema=CURRENT_RULE)


def _of_branches(table: pa.Table) -> Iterator[dict[str, Any]]:
    return (row for row in table.to_pylist() if row["tag"] is None)


def _rule_key(row: dict[str, Any]) -> tuple[str, str | None]:
    return row["prefix"], row["branch"]


def branch_last(current: pa.Table) -> pa.Table:
    """For each branch the earliest date up to which its rules have deleted; null for never."""
    found: dict[str | None, datetime | None] = {}
    for row in current.to_pylist():
        branch, date = row["branch"], row["last_deleted"]
        known = found.get(branch, date)
        found[branch] = None if known is None or date is None else min(known, date)
    rows = [{"branch": branch, "last_deleted": date} for branch, date in found.items()]
    return pa.Table.from_pylist(rows, schema=BRANCH_LAST)
