"""Branches and commits that are made to take paths off others, and nobody's own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakesweep.lakefs.refs.commit_graph import (
    TEMPORARY_MARK,
    TEMPORARY_PREFIX,
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    adopt_temporary_commits,
    make_refs,
    temporary_name,
    without_temporary,
)

_NOW = datetime(2026, 11, 15, tzinfo=UTC)


def commit(id_: str, *parents: str, marked: bool = False) -> RepositoryCommit:
    metadata = {TEMPORARY_MARK: parents[-1]} if marked else {}
    return RepositoryCommit(id_, parents, f"m-{id_}", _NOW, metadata=metadata)


def refs(*branches: tuple[str, str]) -> Refs:
    """`head` on top of `first`, and beside it what takes paths off `head`, and what follows it."""
    commits = [
        commit("first"),
        commit("head", "first"),
        commit("ours", "head", marked=True),
        commit("merge", "head", "ours", marked=True),
        commit("theirs", "ours"),
    ]
    return make_refs(commits, [RepositoryBranch(name, head) for name, head in branches], ())


@pytest.mark.parametrize("head", ["head", "ours"])
def test_what_a_run_left_is_no_branch(head: str) -> None:
    found = refs(("main", "head"), (temporary_name("apply-1", "head"), head))
    assert [branch.name for branch in without_temporary(found).branches] == ["main"]
    assert without_temporary(found).commits == found.commits


@pytest.mark.parametrize(
    ("name", "head"),
    [
        (temporary_name("apply-1", "head"), "theirs"),
        (temporary_name("apply-1", "head"), "first"),
        (temporary_name("apply-1", "head"), "merge"),
        (temporary_name("apply-1", "first"), "ours"),
        (f"{TEMPORARY_PREFIX}x", "head"),
        ("x-head", "head"),
        ("head", "head"),
    ],
)
def test_what_somebody_else_uses_is_a_branch(name: str, head: str) -> None:
    """He committed to it, has put it elsewhere, or only calls it so."""
    found = refs(("main", "head"), (name, head))
    assert without_temporary(found) == found


def test_a_branch_that_was_put_elsewhere_makes_nobodys_no_branch() -> None:
    found = refs(("main", "first"), (temporary_name("apply-1", "head"), "head"))
    assert [branch.name for branch in without_temporary(found).branches] == ["main"]


def test_whoever_has_the_metadata_of_another_commit_is_not_temporary() -> None:
    """As a cherry-pick has them."""
    picked = RepositoryCommit(
        "picked", ("first",), "m-picked", _NOW, metadata={TEMPORARY_MARK: "head"}
    )
    found = make_refs([commit("first"), picked], [RepositoryBranch("main", "first")], ())
    bits = {"first": 1, "picked": 0}
    adopt_temporary_commits(found, bits)
    assert bits["picked"] == 0


def test_what_nothing_reaches_is_kept_as_its_parent_is() -> None:
    bits = {"first": 3, "head": 2, "ours": 0, "merge": 0, "theirs": 0}
    adopt_temporary_commits(refs(("main", "head")), bits)
    assert bits == {"first": 3, "head": 2, "ours": 2, "merge": 2, "theirs": 0}


def test_what_a_branch_reaches_is_kept_by_that() -> None:
    bits = {"first": 3, "head": 2, "ours": 1, "merge": 1, "theirs": 0}
    adopt_temporary_commits(refs(("main", "merge")), bits)
    assert bits["ours"] == 1
