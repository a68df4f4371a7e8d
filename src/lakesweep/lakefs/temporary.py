"""Branches and commits that are made only so that paths can be taken off other branches.

Such a commit is its first parent without some paths, so it holds nothing that this one does not. A
run that died may leave a branch on one. A merge that was refused leaves the commit to nobody, and
its own too: servers make that before they ask hooks.

The name of such a branch says which HEAD it was made for. Where it is on another commit, or is only
called alike, it is somebody's own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Final, Protocol

from lakesweep.lakefs.refs import Refs


class Marked(Protocol):
    """What is looked at of a commit."""

    @property
    def id(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> Mapping[str, str]: ...


#: What the names of such branches begin with.
PREFIX: Final = "lakesweep-expire-heads-"
#: What the metadata of such commits have: the id of the last parent.
MARK: Final = "lakesweep-takes-paths-off"


def temporary_name(run: str, head: str) -> str:
    """What the branch is called that a run makes for a HEAD."""
    return f"{PREFIX}{run}-{head}"


def is_temporary(commit: Marked) -> bool:
    """Whether a commit is its first parent without some paths, by itself or by a merge of such.

    A commit that somebody else made, and that got the metadata of such a one, has another parent.
    """
    return commit.parents[-1:] == (commit.metadata.get(MARK),)


def is_nobodys(name: str, head: Marked) -> bool:
    """Whether a branch with this HEAD was made so, and nobody else has used it since."""
    made_for = name.rpartition("-")[2]
    is_ours = head.id == made_for or (is_temporary(head) and head.parents == (made_for,))
    return name.startswith(PREFIX) and is_ours


def adopt(refs: Refs, bits: MutableMapping[str, int]) -> None:
    """Give temporary commits that nothing reaches the bits of their parents: they hold no more."""
    for commit in refs.commits.values():  # parents before their children
        if not bits[commit.id] and is_temporary(commit):
            bits[commit.id] = bits[commit.parents[0]]


def without_temporary(refs: Refs) -> Refs:
    """Refs without the branches that are nobody's."""
    kept = (
        branch
        for branch in refs.branches
        if not is_nobodys(branch.name, refs.commits[branch.commit_id])
    )
    return replace(refs, branches=tuple(kept))
