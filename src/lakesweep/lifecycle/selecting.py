"""Potential commits: those that may hold what the last run that swept did not let go.

What is deleted never depends on them, since all occurrences of an address count; only what is
looked at does. The rule that is used by itself takes a commit if it may be new to *one* of the refs
that keep it, because an object becomes free when the last of them gives way. The requirement's own
rule takes it only if it is new to all of its branches, and so misses some: it is there by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

import pyarrow as pa

from lakesweep.lakefs.refs import Branch, Commit, Refs, Tag
from lakesweep.lifecycle.columns import COMMITS
from lakesweep.lifecycle.history import RunRecord
from lakesweep.lifecycle.keepers import Kept, find_keepers, places_of
from lakesweep.lifecycle.policy import Policy, is_pattern
from lakesweep.lifecycle.tables import midnight
from lakesweep.lifecycle.terms import FOREVER

_BRANCHES_NAMED = 20


class Selection(StrEnum):
    """Which commits a run looks at: all, or by one of the two rules."""

    FULL = "full"
    INCREMENTAL = "incremental"
    REQUIREMENT = "requirement"


@dataclass(frozen=True)
class Before:
    """The last run that swept, and the commits that there were."""

    run: RunRecord
    commits: frozenset[str]


def must_be_full(
    now: datetime,
    refs: Refs,
    policy: Policy,
    options: str,
    before: Before | None,
    restored: datetime | None = None,
) -> str | None:
    """Why all commits must be looked at; None where the last run may be built upon."""
    if before is None:
        return "no run has swept yet"
    if before.run.started > now:
        return "the last run that swept is of a time that is still to come"
    if before.run.policy_sha256 != policy.sha256:
        return "the policy has changed since the last run that swept"
    if before.run.options != options:
        return "the options have changed since the last run that swept"
    if restored is not None and restored >= before.run.started:
        return "objects came back from quarantine since the last run that swept"
    heads = {*before.run.branches.values(), *before.run.tags.values()}
    heads |= {lost.commit_id for lost in before.run.lost}
    if not heads <= refs.commits.keys() or not before.commits <= refs.commits.keys():
        return "commits are gone that the last run saw"
    return None


def potential_commits(
    refs: Refs, policy: Policy, kept: Kept, before: Before, *, tags_protect_history: bool
) -> frozenset[str]:
    """The commits that are new, or kept by others than before, or were too young for a ref.

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


def _refs_of(refs: Refs, run: RunRecord) -> Refs:
    return replace(
        refs,
        branches=tuple(Branch(name, commit) for name, commit in run.branches.items()),
        tags=tuple(Tag(name, commit) for name, commit in run.tags.items()),
    )


class _Meanings:
    """What bits stand for, so that those of two runs can be compared."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._known: dict[int, frozenset[object]] = {}

    def of(self, commit: str) -> frozenset[object]:
        bits = self._kept.commits[commit]
        if bits not in self._known:
            self._known[bits] = frozenset(self._kept.keepers[place] for place in places_of(bits))
        return self._known[bits]


def _cutoff(kept: Kept, bits: int, started: datetime) -> datetime | None:
    """The earliest of the cut-offs of a run; None where no rule lets anything go."""
    days = [
        days
        for place in places_of(bits)
        for days in kept.keepers[place].terms
        if days is not None and days != FOREVER
    ]
    return midnight(started, max(days)) if days else None


def _is_since(commit: Commit, cutoff: datetime | None) -> bool:
    return cutoff is not None and commit.created >= cutoff


def required_commits(refs: Refs, last: pa.Table) -> frozenset[str]:
    """The commits that the requirement's rule takes, by the table BRANCH_LAST.

    `date(c) > max over branches of min(last(branch), last(ALL))`, where a branch without a row of
    its own has that for all, and one without any keeps the commit out.
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
    """The table of commits (COMMITS), with the branches that reach each."""
    names = [branch.name for branch in refs.branches]
    reaching = refs.reaching([branch.commit_id for branch in refs.branches])
    rows = [
        {
            "commit_id": commit.id,
            "metarange_id": commit.metarange_id,
            "created": commit.created,
            "potential": potential[commit.id],
            "branches": [names[place] for place in _first(reaching[commit.id])],
            "branch_count": reaching[commit.id].bit_count(),
        }
        for commit in refs.commits.values()
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=COMMITS)


def _first(bits: int) -> list[int]:
    return [place for place, _ in zip(places_of(bits), range(_BRANCHES_NAMED), strict=False)]
