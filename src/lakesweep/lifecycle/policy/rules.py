"""Policies and rules: how long objects live, by prefix, branch and tag.

A rule covers a path on a ref if its prefix matches the path and it has days for that ref. An
object expires when some rule covers it on every ref that keeps it, and every rule that covers
it is due: the longest retention wins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TypeAlias

import msgspec

#: Days by the name or pattern of branches or tags, in the order of names; none twice.
NamedDays: TypeAlias = tuple[tuple[str, int], ...]

_WILD = "*?["
#: Where servers find the hooks of a branch.
_HOOKS = b"_lakefs_actions/"


@dataclass(frozen=True, slots=True)
class RulePrefix:
    """The paths that a rule covers. `text` is the prefix as written.

    `foo/bar` means that path and everything below it, but not `foo/barn`. With a trailing `/` or
    `*`, or without `by_folder`, it means all paths that begin with it.
    """

    text: str
    by_folder: bool = True

    @property
    def start(self) -> str:
        """What all its paths begin with."""
        return self.text.removesuffix("*")

    @property
    def is_raw(self) -> bool:
        """Whether it means all paths that begin with it."""
        return not self.by_folder or self.text == "" or self.text.endswith(("/", "*"))

    def covers(self, path: bytes) -> bool:
        """Whether the rule covers a path."""
        start = self.start.encode()
        return path.startswith(start if self.is_raw else start + b"/") or path == start

    def words(self) -> str:
        """What it means, in words."""
        if not self.start:
            return "all paths"
        return f"paths that begin with {self.start}" if self.is_raw else f"{self.start} and below"


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """How long objects live under one prefix.

    `branch_days` and `tag_days` are by name or pattern. A name takes precedence over patterns, and
    of several matching patterns the longest retention applies. Without `days` only those branches
    are covered. HEADs keep what they hold unless `expire_heads`.
    """

    id: str
    prefix: RulePrefix
    days: int | None = None
    branch_days: NamedDays = ()
    tag_days: NamedDays = ()
    expire_heads: bool = False
    enabled: bool = True

    def days_on_branch(self, name: str) -> int | None:
        """The days on a branch; None if the rule does not cover it."""
        found = _named(self.branch_days, name)
        return self.days if found is None else found

    def days_on_tag(self, name: str) -> int | None:
        """The days on a tag; None if the rule does not name it."""
        return _named(self.tag_days, name)

    def all_days(self) -> Iterator[tuple[str, int]]:
        """All numbers of days in the rule, each with its key."""
        if self.days is not None:
            yield "days", self.days
        for key in ("branch_days", "tag_days"):
            for name, days in getattr(self, key):
                yield f"{key}.{name}", days

    def words(self) -> str:
        """The rule in one sentence."""
        if not self.enabled:
            return f"{self.id}: not enabled"
        return f"{self.id}: {self.prefix.words()}: {', '.join(self._spans())}"

    def _spans(self) -> Iterator[str]:
        for name, days in self.branch_days:
            yield f"{_days(days)} on {_ref('branch', name)}"
        match self.days, self.branch_days:
            case None, _:
                yield "kept on all other branches"
            case days, ():
                yield f"{_days(days)} on all branches, and where no branch is left"
            case days, _:
                yield f"{_days(days)} on all other branches, and where no branch is left"
        for name, days in self.tag_days:
            yield f"{_days(days)} on {_ref('tag', name)}"
        yield "HEADs too" if self.expire_heads else "never while a HEAD holds it"


@dataclass(frozen=True)
class LifecyclePolicy:
    """All rules, as they were written."""

    all_rules: tuple[LifecycleRule, ...]

    @cached_property
    def rules(self) -> tuple[LifecycleRule, ...]:
        """Those that are enabled."""
        return tuple(rule for rule in self.all_rules if rule.enabled)

    @cached_property
    def sha256(self) -> str:
        """Equal for policies that judge alike: ids and disabled rules do not count."""
        lines = sorted(msgspec.json.encode(_meaning(rule)) for rule in self.rules)
        return hashlib.sha256(b"\n".join(lines)).hexdigest()

    def as_proposed(self) -> LifecyclePolicy:
        """The same rules as the original proposal reads them: by text alone, on HEADs too."""
        return LifecyclePolicy(
            tuple(
                replace(rule, prefix=replace(rule.prefix, by_folder=False), expire_heads=True)
                for rule in self.all_rules
            )
        )

    def shorter_than(self, days: int) -> tuple[str, ...]:
        """The enabled rules that retain something for fewer days."""
        return tuple(
            f"{rule.id}.{key} ({_days(each)})"
            for rule in self.rules
            for key, each in rule.all_days()
            if each < days
        )

    @property
    def head_rules(self) -> tuple[LifecycleRule, ...]:
        """The rules that expire what HEADs hold."""
        return tuple(rule for rule in self.rules if rule.expire_heads)

    def words(self) -> tuple[str, ...]:
        """The policy in sentences, one per rule."""
        return tuple(rule.words() for rule in self.all_rules)

    def warnings(self, branches: Iterable[str], tags: Iterable[str]) -> tuple[str, ...]:
        """What may not mean what its author intended."""
        known = {"branch": tuple(branches), "tag": tuple(tags)}
        return (*self._unknown(known), *self._overlaps(), *self._hooks())

    def _unknown(self, known: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
        for rule in self.rules:
            for kind, named in (("branch", rule.branch_days), ("tag", rule.tag_days)):
                for name, _ in named:
                    if not any(_fits(name, each) for each in known[kind]):
                        yield f"{rule.id}: there is no {_ref(kind, name)}"

    def _overlaps(self) -> Iterator[str]:
        for place, rule in enumerate(self.rules):
            for other in self.rules[place + 1 :]:
                if _overlap(rule.prefix, other.prefix) and _meaning(rule) != _meaning(other):
                    yield f"{rule.id} and {other.id} overlap: the longer retention applies"

    def _hooks(self) -> Iterator[str]:
        for rule in self.head_rules:
            if rule.prefix.covers(_HOOKS):
                yield f"{rule.id}: hooks of branches expire too, as they lie in {_HOOKS.decode()}"


def _overlap(one: RulePrefix, other: RulePrefix) -> bool:
    return one.covers(other.start.encode()) or other.covers(one.start.encode())


def _meaning(rule: LifecycleRule) -> tuple[object, ...]:
    return (
        rule.prefix.text if rule.prefix.by_folder else (rule.prefix.text, "by text"),
        rule.days,
        rule.branch_days,
        rule.tag_days,
        rule.expire_heads,
    )


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern: no branch or tag has these characters."""
    return any(letter in name for letter in _WILD)


def _fits(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) if is_pattern(pattern) else name == pattern


def _named(days: NamedDays, name: str) -> int | None:
    literal = (each for wanted, each in days if wanted == name)
    fitting = (each for pattern, each in days if _fits(pattern, name))
    return next(literal, None) or max(fitting, default=None)


def _ref(kind: str, name: str) -> str:
    return f"{kind} that fits {name}" if is_pattern(name) else f"{kind} {name}"


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
