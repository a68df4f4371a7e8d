"""Branches and commits that are made only so that paths can be taken off other branches.

Such a commit is its parent without some paths, so it holds nothing that its parent does not. A run
that died may leave a branch on one, and a merge that was refused leaves the commit to nobody.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Final

from lakesweep.lakefs.refs import Branch, Commit, Refs

#: What the names of such branches begin with. Nobody else may use it.
PREFIX: Final = "lakesweep-expire-heads-"
#: What the metadata of such commits have.
MARK: Final = "lakesweep-takes-paths-off"


def temporary_name(run: str, number: int) -> str:
    """What the branch for one HEAD is called, in one run."""
    return f"{PREFIX}{run}-{number}"


def is_temporary(commit: Commit) -> bool:
    """Whether a commit is its parent without some paths."""
    return MARK in commit.metadata and len(commit.parents) == 1


def adopt(refs: Refs, bits: MutableMapping[str, int]) -> None:
    """Give temporary commits that nothing reaches the bits of their parents: they hold no more."""
    for commit in refs.commits.values():  # parents before their children
        if not bits[commit.id] and is_temporary(commit):
            bits[commit.id] = bits[commit.parents[0]]


def without_temporary(refs: Refs) -> Refs:
    """Refs without the branches that are nobody's.

    One that somebody committed to is his.
    """
    named = [branch for branch in refs.branches if branch.name.startswith(PREFIX)]
    if not named:
        return refs
    others = [branch for branch in refs.branches if not branch.name.startswith(PREFIX)]
    reached = refs.reached(branch.commit_id for branch in others)

    def is_used(branch: Branch) -> bool:
        head = refs.commits[branch.commit_id]
        return head.id not in reached and not is_temporary(head)

    nobodys = {branch.name for branch in named if not is_used(branch)}
    kept = (branch for branch in refs.branches if branch.name not in nobodys)
    return replace(refs, branches=tuple(kept))
