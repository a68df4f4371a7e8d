"""Random repositories and policies, small enough for an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from tests.lakefs_repositories import LOCATION, Model, entry
from tests.lakefs_tables import Entry
from tests.lifecycle_runs import policy_of

BRANCHES = ("main", "b1", "b2", "rel-1", "rel-2")
TAGS = ("v1", "v2")
PATHS = (
    "foo/bar",
    "foo/bar/a",
    "foo/bar/b",
    "foo/barn/a",
    "foo/tar/a",
    "foo/tar/b",
    "foo/other/c",
    "zoo/1",
    "zoo/2",
    "x",
)
PREFIXES = ("foo/bar", "foo/", "foo/t*", "foo/tar/a", "zoo", "")
#: Few addresses, so that many are shared; one with a clock in its name, some that never go.
ADDRESSES = (
    *(f"data/{number}" for number in range(6)),
    "data/s/d7q0b2a00000000000e0",
    "data/s/d7q0b2a00000000000e0,signed",
    "0123456789abcdef0123456789abcdef",
)
AGES = (1, 3, 6, 7.2, 7.9, 9, 11, 20, 45, 100, 400)

_days = st.sampled_from((1, 5, 7, 8, 10, 30, 60, 365))


@st.composite
def entries(draw: Callable[..., Any]) -> Entry:
    address = draw(st.sampled_from(ADDRESSES))
    if draw(st.integers(0, 9)) == 0:
        return entry(f"{LOCATION}/{address}", draw(st.sampled_from(AGES)), full=True)
    if draw(st.integers(0, 15)) == 0:
        return Entry(address, 0, size_bytes=3)
    return entry(address, draw(st.sampled_from((*AGES, -3))))


@st.composite
def policies(draw: Callable[..., Any]) -> LifecyclePolicy:
    rules: dict[str, dict[str, Any]] = {}
    for number in range(draw(st.integers(1, 3))):
        names = st.sampled_from((*BRANCHES, "rel-*", "gone"))
        rule = {
            "prefix": draw(st.sampled_from(PREFIXES)),
            "days": draw(st.none() | _days),
            "branch_days": draw(st.dictionaries(names, _days, max_size=3)),
            "tag_days": draw(st.dictionaries(st.sampled_from((*TAGS, "*")), _days, max_size=1)),
            "expire_heads": draw(st.booleans()),
            "enabled": draw(st.integers(0, 5)) > 0,
            "allow_empty_prefix": True,
        }
        if rule["days"] is None and not rule["branch_days"]:
            rule["days"] = 7
        rules[f"rule{number}"] = rule
    return policy_of(rules)


def grow(draw: Callable[..., Any], model: Model, days: float, steps: int) -> None:
    """Let somebody work on a repository for some steps, so many days ago."""
    for _ in range(steps):
        _step(draw, model, days)


def _step(draw: Callable[..., Any], model: Model, days: float) -> None:
    branches = sorted(model.branches)
    branch = draw(st.sampled_from(branches))
    head = model.branches[branch]
    match draw(st.sampled_from(("commit", "commit", "merge", "branch", "reset", "delete", "tag"))):
        case "commit":
            tree = dict(model.commits[head].tree)
            for path in draw(st.lists(st.sampled_from(PATHS), max_size=3)):
                tree.pop(path, None)
            put = st.dictionaries(st.sampled_from(PATHS), entries(), max_size=4)
            model.commit(branch, tree | draw(put), days=days)
        case "merge":
            other = model.branches[draw(st.sampled_from(branches))]
            tree = {**model.commits[head].tree, **model.commits[other].tree}
            model.commit(branch, tree, days=days, parents=[other])
        case "branch":
            name = draw(st.sampled_from(BRANCHES))
            model.branches.setdefault(name, draw(st.sampled_from(sorted(model.commits))))
        case "reset":
            model.branches[branch] = draw(st.sampled_from(sorted(model.commits)))
        case "delete":
            if branch != "main":
                del model.branches[branch]
        case "tag":
            model.tags.pop(name := draw(st.sampled_from(TAGS)), None)
            if draw(st.booleans()):
                model.tags[name] = draw(st.sampled_from(sorted(model.commits)))


@st.composite
def models(draw: Callable[..., Any], steps: int = 8) -> Model:
    model = Model()
    model.commit("main", draw(st.dictionaries(st.sampled_from(PATHS), entries())), days=450)
    for days in sorted(draw(st.lists(st.sampled_from(AGES), max_size=3)), reverse=True):
        grow(draw, model, days, draw(st.integers(1, steps)))
    model.staged = draw(st.lists(staged_addresses(), max_size=2))
    return model


def staged_addresses() -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(st.sampled_from(BRANCHES), st.sampled_from(ADDRESSES))
