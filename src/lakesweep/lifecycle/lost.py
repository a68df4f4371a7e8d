"""Branches that are gone, or were moved back: for a while they hold what they held.

Deleting a branch by mistake can be undone as long as its objects are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lakesweep.lakefs.refs import Refs
from lakesweep.lifecycle.history import Lost, RunRecord


def lost_branches(
    refs: Refs, last: RunRecord | None, now: datetime, grace: timedelta
) -> tuple[Lost, ...]:
    """The HEADs that the last run saw and that their branches no longer reach, within the grace."""
    if last is None:
        return ()
    return tuple(lost for lost in _lost(refs, last, now) if now - lost.since < grace)


def _lost(refs: Refs, last: RunRecord, now: datetime) -> Iterator[Lost]:
    known = [*last.lost, *(Lost(name, head, now) for name, head in last.branches.items())]
    heads = {branch.name: branch.commit_id for branch in refs.branches}
    reached: dict[str, frozenset[str]] = {}
    seen = set()
    for lost in known:
        if heads.get(lost.name) == lost.commit_id or (lost.name, lost.commit_id) in seen:
            continue
        if lost.name in heads and lost.name not in reached:
            reached[lost.name] = refs.reached([heads[lost.name]])
        if lost.commit_id not in reached.get(lost.name, ()) and lost.commit_id in refs.commits:
            seen.add((lost.name, lost.commit_id))
            yield lost
