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
    """The part of a commit that is examined here."""

    @property
    def id(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> Mapping[str, str]: ...


#: The prefix of such branch names.
TEMPORARY_PREFIX: Final = "lakesweep-expire-heads-"
#: The metadata key of such commits: the id of the last parent.
TEMPORARY_MARK: Final = "lakesweep-takes-paths-off"


def temporary_name(run: str, head: str) -> str:
    """The name of the branch that a run creates for a HEAD."""
    return f"{TEMPORARY_PREFIX}{run}-{head}"


def is_temporary(commit: CommitHeader) -> bool:
    """Whether a commit is its first parent minus some paths, directly or by merging such a one.

    A commit of another writer that copied the metadata of a temporary one has another parent.
    """
    return commit.parents[-1:] == (commit.metadata.get(TEMPORARY_MARK),)


def is_abandoned(name: str, head: CommitHeader) -> bool:
    """Whether a branch with this HEAD is temporary and unused since."""
    made_for = name.rpartition("-")[2]
    is_ours = head.id == made_for or (is_temporary(head) and head.parents == (made_for,))
    return name.startswith(TEMPORARY_PREFIX) and is_ours


def adopt_temporary_commits(refs: Refs, bits: MutableMapping[str, int]) -> None:
    """Give unreachable temporary commits the bits of their parents: they hold no more."""
    for commit in refs.commits.values():  # parents before their children
        if not bits[commit.id] and is_temporary(commit):
            bits[commit.id] = bits[commit.parents[0]]


def without_temporary(refs: Refs) -> Refs:
    """Refs without abandoned temporary branches."""
    kept = (
        branch
        for branch in refs.branches
        if not is_abandoned(branch.name, refs.commits[branch.commit_id])
    )
    return replace(refs, branches=tuple(kept))
