"""The retention that a policy gives each ref, and the refs that keep each commit.

Refs of one kind with equal terms form one keeper, so there are about as many keepers as the
policy makes distinctions, however many branches there are. A commit, and so a metarange and a
range, has a bit for each keeper: bit i of an integer, or of bytes, for the i-th.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch, adopt_temporary_commits
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, LifecycleRule

#: Longer than any rule allows: kept at any age.
FOREVER = 1_000_000

#: For each enabled rule the days on a ref; None where the rule does not cover it. Refs with equal
#: terms judge every path alike.
RefTerms: TypeAlias = tuple[int | None, ...]


class RefKind(StrEnum):
    """How a ref keeps a commit.

    A HEAD keeps its own commit, a branch all that it reaches, a tag its commit. A commit that no
    branch reaches is dangling, tagged or not: a tag may keep it longer, never shorter. A deleted
    branch keeps what its HEAD held, for a while. Only the original proposal lets commits keep what
    they hold because an earlier run examined them.
    """

    HEAD = "head"
    TAG = "tag"
    DELETED = "deleted-branch"
    BRANCH = "branch"
    DANGLING = "dangling"
    EXAMINED = "examined"


def ref_terms(policy: LifecyclePolicy, kind: RefKind, name: str) -> RefTerms:
    """What the enabled rules say about a ref. A dangling commit has no name."""
    return tuple(_days(rule, kind, name) for rule in policy.rules)


def _days(rule: LifecycleRule, kind: RefKind, name: str) -> int | None:
    match kind:
        case RefKind.BRANCH:
            return rule.days_on_branch(name)
        case RefKind.HEAD:
            return _on_head(rule, rule.days_on_branch(name))
        case RefKind.TAG:
            return rule.days_on_tag(name)
        case RefKind.DANGLING:
            return rule.days
        case RefKind.DELETED | RefKind.EXAMINED:
            return FOREVER
        case _:
            assert_never(kind)


def _on_head(rule: LifecycleRule, days: int | None) -> int | None:
    return days if days is None or rule.expire_heads else FOREVER


_NAMED = 3


@dataclass(frozen=True, slots=True)
class RefKeeper:
    """Refs with equal terms. `names` are the first of them."""

    kind: RefKind
    terms: RefTerms
    names: tuple[str, ...] = field(default=(), compare=False)
    count: int = field(default=0, compare=False)

    @property
    def words(self) -> str:
        """The refs in words."""
        if self.kind is RefKind.DANGLING:
            return "commits on no branch"
        if self.kind is RefKind.EXAMINED:
            return "commits that are no potential ones"
        names = ", ".join(self.names)
        more = self.count - len(self.names)
        return f"{_KINDS[self.kind]} {names}" + (f" and {more} more" if more else "")


_KINDS = {
    RefKind.HEAD: "HEAD of",
    RefKind.TAG: "tag",
    RefKind.DELETED: "deleted branch",
    RefKind.BRANCH: "branch",
}


@dataclass(frozen=True, slots=True)
class CommitKeepers:
    """All keepers, and the bits of each commit."""

    keepers: tuple[RefKeeper, ...]
    commits: Mapping[str, int]


def find_keepers(
    refs: Refs,
    policy: LifecyclePolicy,
    deleted: Iterable[RepositoryBranch] = (),
    *,
    tags_protect_history: bool = False,
) -> CommitKeepers:
    """What keeps the commits of a repository.

    `deleted` are branches that were deleted or moved back, and keep what they held.
    """
    book = _Book(policy)
    own = dict.fromkeys(refs.commits, 0)
    reaching = dict.fromkeys(refs.commits, 0)
    for kind, branches in ((RefKind.HEAD, refs.branches), (RefKind.DELETED, deleted)):
        for branch in branches:
            own[branch.commit_id] |= book.bit(kind, branch.name)
            reaching[branch.commit_id] |= book.bit(RefKind.BRANCH, branch.name)
    _spread(refs, reaching)
    adopt_temporary_commits(refs, reaching)
    for commit in refs.commits:
        own[commit] |= reaching[commit] or book.bit(RefKind.DANGLING, "")
    tagged = dict.fromkeys(refs.commits, 0)
    for tag in refs.tags:
        tagged[tag.commit_id] |= book.bit(RefKind.TAG, tag.name)
    if tags_protect_history:
        _spread(refs, tagged)
    return CommitKeepers(book.keepers(), {commit: own[commit] | tagged[commit] for commit in own})


def keep_examined(
    kept: CommitKeepers, policy: LifecyclePolicy, potential: Container[str]
) -> CommitKeepers:
    """The same, where commits that are not potential keep all that they hold.

    This is the proposal's rule of deduplication.
    """
    terms = ref_terms(policy, RefKind.EXAMINED, "")
    bit = 1 << len(kept.keepers)
    commits = {
        commit: bits if commit in potential else bits | bit for commit, bits in kept.commits.items()
    }
    return CommitKeepers((*kept.keepers, RefKeeper(RefKind.EXAMINED, terms)), commits)


def _spread(refs: Refs, bits: dict[str, int]) -> None:
    """Give all ancestors the bits of a commit."""
    for commit in reversed([*refs.commits.values()]):  # children before their parents
        for parent in commit.parents:
            bits[parent] |= bits[commit.id]


class _Book:
    """The keepers found so far."""

    def __init__(self, policy: LifecyclePolicy) -> None:
        self._policy = policy
        self._places: dict[tuple[RefKind, RefTerms], int] = {}
        self._names: list[list[str]] = []

    def bit(self, kind: RefKind, name: str) -> int:
        key = kind, ref_terms(self._policy, kind, name)
        place = self._places.setdefault(key, len(self._places))
        if place == len(self._names):
            self._names.append([])
        self._names[place].append(name)
        return 1 << place

    def keepers(self) -> tuple[RefKeeper, ...]:
        return tuple(
            RefKeeper(kind, days, tuple(names[:_NAMED]), len(names))
            for (kind, days), names in zip(self._places, self._names, strict=True)
        )


def places_of(bits: int) -> Iterator[int]:
    """Which bits are set."""
    place = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        place += zeros
        yield place
        bits >>= zeros + 1
        place += 1


def pack_bits(bits: int, count: int) -> bytes:
    """Bits as bytes, as many as `count` keepers need."""
    return bits.to_bytes((count + 7) // 8, "little")


def unpack_bits(data: bytes) -> int:
    """The bits in bytes."""
    return int.from_bytes(data, "little")


def metarange_bits(refs: Refs, commits: Mapping[str, int]) -> dict[str, int]:
    """The bits of all metaranges: those of all commits that have them."""
    found: dict[str, int] = {}
    for commit in refs.commits.values():
        if commit.metarange_id:
            found[commit.metarange_id] = found.get(commit.metarange_id, 0) | commits[commit.id]
    return found
