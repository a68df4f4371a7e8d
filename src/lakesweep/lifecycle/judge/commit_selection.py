"""Select the commits that an incremental run examines.

What is deleted never depends on the selection, because all occurrences of an address count; only
what is examined does. By default a commit is selected if it may be new to *one* of the refs that
keep it, because an object becomes free when the last of them releases it. The requirement's own
rule selects it only if it is new to all of its branches, and so misses some; it is available by
name.

The policy tables record the policy of each run, and up to which date the last run that swept has
deleted. They are as small as the policy, so they are computed in this process and stored as
datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
)
from lakesweep.lifecycle.columns import BRANCH_LAST, COMMITS, CURRENT_RULE, POLICY_TABLE
from lakesweep.lifecycle.policy.ref_retention import FOREVER, CommitKeepers, find_keepers, places_of
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule, is_pattern
from lakesweep.lifecycle.run_history import LifecycleRunRecord
from lakesweep.storage.datasets.manifest import Dataset

#: The most names of branches that a batch of commits has.
_NAMES_IN_A_BATCH = 1 << 18


class Selection(StrEnum):
    """Which commits a run examines: all, or those of one of two rules."""

    FULL = "full"
    INCREMENTAL = "incremental"
    REQUIREMENT = "requirement"


@dataclass(frozen=True)
class LastSweep:
    """The last run that swept, with its commits, its policy table and what it left waiting."""

    run: LifecycleRunRecord
    commits: frozenset[str]
    policy: pa.Table
    waiting: Dataset


def full_scan_reason(
    now: datetime,
    refs: Refs,
    policy: LifecyclePolicy,
    options: str,
    before: LastSweep | None,
    restored: datetime | None = None,
) -> str | None:
    """Why all commits must be examined; None if the run can build on the last one."""
    if before is None:
        return "no earlier run has deleted anything"
    if before.run.started > now:
        return "the last run that deleted is in the future"
    if before.run.policy_sha256 != policy.sha256:
        return "the policy has changed since the last run that deleted"
    if before.run.options != options:
        return "the options have changed since the last run that deleted"
    if restored is not None and restored >= before.run.started:
        return "objects came back from quarantine since the last run that deleted"
    if not before.run.heads <= refs.commits.keys() or not before.commits <= refs.commits.keys():
        return "commits of the last run no longer exist"
    return None


def potential_commits(
    refs: Refs,
    policy: LifecyclePolicy,
    kept: CommitKeepers,
    before: LastSweep,
    *,
    tags_protect_history: bool,
) -> frozenset[str]:
    """The commits that are new, are kept by other refs now, or were too young for a ref.

    `date(c) >= min over refs of its cut-off in the last run`: at least what it may have left.
    """
    then = find_keepers(
        _refs_of(refs, before.run),
        policy,
        [lost.branch() for lost in before.run.lost],
        tags_protect_history=tags_protect_history,
    )
    meanings = _Meanings(kept), _Meanings(then)
    cutoffs = {bits: _cutoff(kept, bits, before.run.started) for bits in set(kept.commits.values())}
    return frozenset(
        commit.id
        for commit in refs.commits.values()
        if commit.id not in before.commits
        or meanings[0].of(commit.id) != meanings[1].of(commit.id)
        or _is_since(commit, cutoffs[kept.commits[commit.id]])
    )


def _refs_of(refs: Refs, run: LifecycleRunRecord) -> Refs:
    return replace(
        refs,
        branches=tuple(RepositoryBranch(name, commit) for name, commit in run.branches.items()),
        tags=tuple(RepositoryTag(name, commit) for name, commit in run.tags.items()),
    )


class _Meanings:
    """The meaning of bits, so that those of two runs can be compared."""

    def __init__(self, kept: CommitKeepers) -> None:
        self._kept = kept
        self._known: dict[int, frozenset[object]] = {}

    def of(self, commit: str) -> frozenset[object]:
        bits = self._kept.commits[commit]
        if bits not in self._known:
            self._known[bits] = frozenset(self._kept.keepers[place] for place in places_of(bits))
        return self._known[bits]


def _cutoff(kept: CommitKeepers, bits: int, started: datetime) -> datetime | None:
    """The earliest cut-off of a run; None if no rule expires anything."""
    days = [
        days
        for place in places_of(bits)
        for days in kept.keepers[place].terms
        if days is not None and days != FOREVER
    ]
    return midnight(started, max(days)) if days else None


def _is_since(commit: RepositoryCommit, cutoff: datetime | None) -> bool:
    return cutoff is not None and commit.created >= cutoff


def required_commits(refs: Refs, last: pa.Table) -> frozenset[str]:
    """The commits that the requirement's rule selects, by the table BRANCH_LAST.

    `date(c) > max over branches of min(last(branch), last(ALL))`, where a branch without a row of
    its own has that for all, and one without any excludes the commit.
    """
    names = [branch.name for branch in refs.branches]
    effective = [_effective(name, last) for name in names]
    reaching = refs.reaching([branch.commit_id for branch in refs.branches])
    limits = {bits: _latest(effective, bits) for bits in set(reaching.values())}
    return frozenset(
        commit.id
        for commit in refs.commits.values()
        if (limit := limits[reaching[commit.id]]) is not None and commit.created.timestamp() > limit
    )


_ALWAYS, _NEVER = float("-inf"), float("inf")


def _effective(name: str, last: pa.Table) -> float:
    rows = [row for row in last.to_pylist() if _is_for(row["branch"], name)]
    dates = [row["last_deleted"] for row in rows]
    if not dates:
        return _NEVER
    return min(_ALWAYS if date is None else date.timestamp() for date in dates)


def _is_for(branch: str | None, name: str) -> bool:
    if branch is None or branch == name:
        return True
    return is_pattern(branch) and fnmatchcase(name, branch)


def _latest(effective: list[float], bits: int) -> float | None:
    limit = max((effective[place] for place in places_of(bits)), default=_NEVER)
    return None if limit == _NEVER else limit


def commit_rows(refs: Refs, potential: Mapping[str, bool]) -> Iterator[pa.RecordBatch]:
    """The table of commits (COMMITS), with all branches that reach each."""
    names = [branch.name for branch in refs.branches]
    reaching = refs.reaching([branch.commit_id for branch in refs.branches])
    # Few sets of branches differ, however many commits there are.
    branches = {
        bits: [names[place] for place in places_of(bits)] for bits in set(reaching.values())
    }
    for commits in _chunks(refs.commits.values(), lambda each: len(branches[reaching[each.id]])):
        rows = [
            {
                "commit_id": commit.id,
                "metarange_id": commit.metarange_id,
                "created": commit.created,
                "potential": potential[commit.id],
                "branches": branches[reaching[commit.id]],
            }
            for commit in commits
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=COMMITS)


def _chunks(
    commits: Iterable[RepositoryCommit], size: Callable[[RepositoryCommit], int]
) -> Iterator[list[RepositoryCommit]]:
    """Commits in lists of a bounded number of names; a commit counts as one more."""
    chunk: list[RepositoryCommit] = []
    room = _NAMES_IN_A_BATCH
    for commit in commits:
        room -= 1 + size(commit)
        chunk.append(commit)
        if room <= 0:
            yield chunk
            chunk, room = [], _NAMES_IN_A_BATCH
    yield chunk


def midnight(moment: datetime, days: int = 0) -> datetime:
    """The start of the UTC day a number of days earlier."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=days)


def policy_table(policy: LifecyclePolicy, run_id: str, started: datetime) -> pa.Table:
    """What the enabled rules mean on the day of a run: anything before the date may expire."""
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


def _rows(rule: LifecycleRule) -> Iterator[tuple[str | None, str | None, int]]:
    if rule.days is not None:
        yield None, None, rule.days
    for name, days in rule.branch_days:
        yield name, None, days
    for name, days in rule.tag_days:
        yield None, name, days


def current_rule(now: pa.Table, swept: pa.Table | None) -> pa.Table:
    """The rows of a run's policy table for branches, with the dates of the last run that swept.

    A rule is recognised by its prefix and branch, not by its id. If two rules of that run had both,
    the older date counts.
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
