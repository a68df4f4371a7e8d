from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from lakesweep.errors import IncompleteError, NotFoundError, UsageError
from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)

_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def commit(name: str, *parents: str, version: int = 1) -> RepositoryCommit:
    return RepositoryCommit(name, parents, f"m-{name}", _DAY, version=version)


def merged() -> Refs:
    """a - b - d (main), c merged into d from a; e dangles on b, f is tagged and dangles on a."""
    commits = [
        commit("dddd", "bbbb", "cccc"),
        commit("eeee", "bbbb"),
        commit("cccc", "aaaa"),
        commit("bbbb", "aaaa"),
        commit("ffff", "aaaa"),
        commit("aaaa"),
    ]
    branches = [RepositoryBranch("main", "dddd"), RepositoryBranch("side", "cccc", hidden=True)]
    return make_refs(commits, branches, [RepositoryTag("v1", "ffff")])


def test_parents_come_first() -> None:
    order = list(merged().commits)
    assert sorted(order) == ["aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff"]
    assert order.index("aaaa") < order.index("bbbb") < order.index("dddd")


def test_all_parents_are_reached() -> None:
    assert merged().reached(["dddd"]) == {"aaaa", "bbbb", "cccc", "dddd"}
    assert merged().reached([]) == frozenset()


def test_each_commit_knows_which_heads_reach_it() -> None:
    bits = merged().reaching(["dddd", "cccc", "ffff"])
    assert bits == {
        "aaaa": 0b111,
        "bbbb": 0b001,
        "cccc": 0b011,
        "dddd": 0b001,
        "eeee": 0,
        "ffff": 0b100,
    }


def test_what_no_branch_reaches_dangles() -> None:
    assert merged().dangling() == {"eeee", "ffff"}


@pytest.mark.parametrize(("name", "found"), [("main", "dddd"), ("v1", "ffff"), ("bbbb", "bbbb")])
def test_a_commit_is_found_by_what_names_it(name: str, found: str) -> None:
    assert merged().find(name).id == found


def test_a_beginning_must_fit_one_commit() -> None:
    refs = make_refs([commit("abcd1"), commit("abcd2"), commit("beef1")], [], [])
    assert refs.find("beef").id == "beef1"
    with pytest.raises(UsageError, match="2 commit ids"):
        refs.find("abcd")
    with pytest.raises(NotFoundError):
        refs.find("bee")
    with pytest.raises(NotFoundError):
        refs.find("none")


def test_the_main_parent_was_once_the_last() -> None:
    assert commit("d", "b", "c").main_parent == "b"
    assert commit("d", "b", "c", version=0).main_parent == "c"
    assert commit("d").main_parent is None


def test_a_missing_commit_is_an_error() -> None:
    with pytest.raises(IncompleteError, match="branch 'main' names commit bbbb"):
        make_refs([commit("aaaa")], [RepositoryBranch("main", "bbbb")], [])
    with pytest.raises(IncompleteError, match="tag 'v1'"):
        make_refs([commit("aaaa")], [], [RepositoryTag("v1", "bbbb")])
    with pytest.raises(IncompleteError, match="commit bbbb names commit aaaa"):
        make_refs([commit("bbbb", "aaaa")], [], [])


def test_commits_in_a_circle_are_an_error() -> None:
    with pytest.raises(IncompleteError, match="ancestors"):
        make_refs([commit("aaaa", "bbbb"), commit("bbbb", "aaaa")], [], [])


def test_bits_agree_with_walks_on_a_long_history() -> None:
    random = Random(7)
    commits = [commit("0")]
    for number in range(1, 3000):
        parents = {str(max(0, number - random.choice([1, 1, 1, 2, 40]))) for _ in range(2)}
        commits.append(commit(str(number), *parents))
    random.shuffle(commits)
    refs = make_refs(commits, [RepositoryBranch("b", "2990")], [])
    heads = [str(random.randrange(3000)) for _ in range(70)]
    bits = refs.reaching(heads)
    for place, head in enumerate(heads):
        assert {id_ for id_, found in bits.items() if found >> place & 1} == refs.reached([head])
