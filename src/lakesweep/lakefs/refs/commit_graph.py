"""Commits, branches and tags of a repository, and which commits they reach.

Some branches and commits are temporary, made only to remove paths from other branches. A temporary
commit is its first parent without some paths, so it holds nothing that its parent
does not. A crashed run may leave a branch on one. A refused merge leaves its commit
unreachable, and the merge commit too, because servers create that before they run hooks.

The name of a temporary branch says for which HEAD it was made. A branch of that name on
another commit belongs to a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from lakesweep.errors import IncompleteError, NotFoundError, UsageError

#: Since this commit version, the target branch of a merge is the first parent.
_MAIN_PARENT_FIRST = 1
_SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class RepositoryCommit:
    """One commit.

    `metarange_id` is empty if it holds nothing, like the first one. A client may have set `created`
    to a past or a future time.
    """

    id: str
    parents: tuple[str, ...]
    metarange_id: str
    created: datetime
    committer: str = ""
    message: str = ""
    version: int = 1
    generation: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def main_parent(self) -> str | None:
        """The previous commit of the branch; old merges name it last."""
        if not self.parents:
            return None
        return self.parents[0 if self.version >= _MAIN_PARENT_FIRST else -1]


@dataclass(frozen=True, slots=True)
class RepositoryBranch:
    """A branch and its HEAD."""

    name: str
    commit_id: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class RepositoryTag:
    """A tag and its commit. Tags may be deleted and created again on another commit."""

    name: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class Refs:
    """All commits of a repository, unreachable ones included, and all branches and tags.

    Every HEAD, every tagged commit and every parent is among the commits, parents before children;
    `make_refs` ensures it.
    """

    commits: Mapping[str, RepositoryCommit]
    branches: tuple[RepositoryBranch, ...]
    tags: tuple[RepositoryTag, ...]

    def reached(self, heads: Iterable[str]) -> frozenset[str]:
        """The commits reachable from any of these, through all parents, and these."""
        found: set[str] = set()
        ahead = list(heads)
        while ahead:
            commit = ahead.pop()
            if commit not in found:
                found.add(commit)
                ahead += self.commits[commit].parents
        return frozenset(found)

    def reaching(self, heads: Sequence[str]) -> Mapping[str, int]:
        """For each commit, the heads that reach it through all parents: bit i for the i-th head."""
        bits = dict.fromkeys(self.commits, 0)
        for place, head in enumerate(heads):
            bits[head] |= 1 << place
        for commit in reversed(list(self.commits.values())):  # children before their parents
            for parent in commit.parents:
                bits[parent] |= bits[commit.id]
        return bits

    def dangling(self) -> frozenset[str]:
        """The commits that no branch reaches; they may be tagged."""
        return frozenset(self.commits) - self.reached(each.commit_id for each in self.branches)

    def find(self, name: str) -> RepositoryCommit:
        """The commit of a branch, a tag, a commit id, or an unambiguous prefix of an id."""
        heads = {tag.name: tag.commit_id for tag in self.tags}
        heads |= {branch.name: branch.commit_id for branch in self.branches}
        commit = self.commits.get(heads.get(name, name))
        return self._find_prefix(name) if commit is None else commit

    def _find_prefix(self, name: str) -> RepositoryCommit:
        fitting = [commit for commit in self.commits.values() if commit.id.startswith(name)]
        if len(name) < _SHORTEST_PREFIX or not fitting:
            raise NotFoundError(
                f"{name!r} is not a branch, tag or commit",
                hint="lakesweep lifecycle refs REPO lists them all",
            )
        if len(fitting) > 1:
            raise UsageError(
                f"{name!r} is a prefix of {len(fitting)} commit ids",
                hint="give a longer prefix",
            )
        return fitting[0]


def make_refs(
    commits: Iterable[RepositoryCommit],
    branches: Iterable[RepositoryBranch],
    tags: Iterable[RepositoryTag],
) -> Refs:
    """Assemble refs; IncompleteError if one names a commit that does not exist."""
    known = {commit.id: commit for commit in commits}
    refs = Refs(_parents_first(known), tuple(branches), tuple(tags))
    heads = {f"branch {each.name!r}": each.commit_id for each in refs.branches}
    heads |= {f"tag {each.name!r}": each.commit_id for each in refs.tags}
    for name, commit_id in heads.items():
        if commit_id not in known:
            raise _missing(name, commit_id)
    return refs


def _parents_first(commits: Mapping[str, RepositoryCommit]) -> Mapping[str, RepositoryCommit]:
    """The commits in an order in which parents come before children."""
    children: dict[str, list[str]] = {id_: [] for id_ in commits}
    for commit in commits.values():
        for parent in commit.parents:
            if parent not in children:
                raise _missing(f"commit {commit.id}", parent)
            children[parent].append(commit.id)
    waiting = {id_: len(commit.parents) for id_, commit in commits.items()}
    ready = [id_ for id_, count in waiting.items() if count == 0]
    ordered: dict[str, RepositoryCommit] = {}
    while ready:
        id_ = ready.pop()
        ordered[id_] = commits[id_]
        for child in children[id_]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    if len(ordered) < len(commits):
        raise IncompleteError("some commits are their own ancestors, so they have no order")
    return ordered


def _missing(who: str, commit_id: str) -> IncompleteError:
    return IncompleteError(
        f"{who} names commit {commit_id}, which does not exist",
        hint="dump the refs of the repository again while nothing else writes a dump",
    )


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
