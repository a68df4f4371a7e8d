"""Temporary branches and commits, made only to remove paths from other branches.

A temporary commit is its first parent without some paths, so it holds nothing that its parent
does not. A crashed run may leave a branch on one. A refused merge leaves its commit
unreachable, and the merge commit too, because servers create that before they run hooks.

The name of a temporary branch says for which HEAD it was made. A branch of that name on
another commit belongs to a user.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Final, Protocol

from lakesweep.lakefs.refs.commit_graph import Refs


class CommitHeader(Protocol):
    """What is looked at of a commit."""

    @property
    def id(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> Mapping[str, str]: ...


#: What the names of such branches begin with.
TEMPORARY_PREFIX: Final = "lakesweep-expire-heads-"
#: What the metadata of such commits have: the id of the last parent.
TEMPORARY_MARK: Final = "lakesweep-takes-paths-off"


def temporary_name(run: str, head: str) -> str:
    """What the branch is called that a run makes for a HEAD."""
    return f"{TEMPORARY_PREFIX}{run}-{head}"


def is_temporary(commit: CommitHeader) -> bool:
    """Whether a commit is its first parent without some paths, by itself or by a merge of such.

    A commit that somebody else made, and that got the metadata of such a one, has another parent.
    """
    return commit.parents[-1:] == (commit.metadata.get(TEMPORARY_MARK),)


def is_abandoned(name: str, head: CommitHeader) -> bool:
    """Whether a branch with this HEAD was made so, and nobody else has used it since."""
    made_for = name.rpartition("-")[2]
    is_ours = head.id == made_for or (is_temporary(head) and head.parents == (made_for,))
    return name.startswith(TEMPORARY_PREFIX) and is_ours


def adopt_temporary_commits(refs: Refs, bits: MutableMapping[str, int]) -> None:
    """Give temporary commits that nothing reaches the bits of their parents: they hold no more."""
    for commit in refs.commits.values():  # parents before their children
        if not bits[commit.id] and is_temporary(commit):
            bits[commit.id] = bits[commit.parents[0]]


def without_temporary(refs: Refs) -> Refs:
    """Refs without the branches that are nobody's."""
    kept = (
        branch
        for branch in refs.branches
        if not is_abandoned(branch.name, refs.commits[branch.commit_id])
    )
    return replace(refs, branches=tuple(kept))
