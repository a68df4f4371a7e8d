"""What a policy says of a ref: the days of each rule there."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, assert_never

from lakesweep.lifecycle.policy import Policy, Rule

#: Longer than any rule can say: what is kept so does not go by age.
FOREVER = 1_000_000

#: For each enabled rule the days on a ref; None where the rule does not cover it. Refs with equal
#: terms judge every path alike.
Terms: TypeAlias = tuple[int | None, ...]


class RefKind(StrEnum):
    """How a ref holds a commit.

    A HEAD holds its own commit, a branch all that it reaches, a tag what it is on. What no branch
    reaches is dangling, whether or not a tag is on it: a tag may keep for longer, never for less.
    A deleted branch holds what its HEAD was, for a while.
    """

    HEAD = "head"
    TAG = "tag"
    DELETED = "deleted-branch"
    BRANCH = "branch"
    DANGLING = "dangling"


def terms(policy: Policy, kind: RefKind, name: str) -> Terms:
    """What the enabled rules say of a ref. A dangling commit has no name."""
    return tuple(_days(rule, kind, name) for rule in policy.rules)


def _days(rule: Rule, kind: RefKind, name: str) -> int | None:
    match kind:
        case RefKind.BRANCH:
            return rule.days_on_branch(name)
        case RefKind.HEAD:
            return _on_head(rule, rule.days_on_branch(name))
        case RefKind.TAG:
            return rule.days_on_tag(name)
        case RefKind.DANGLING:
            return rule.days
        case RefKind.DELETED:
            return FOREVER
        case _:
            assert_never(kind)


def _on_head(rule: Rule, days: int | None) -> int | None:
    return days if days is None or rule.expire_heads else FOREVER
