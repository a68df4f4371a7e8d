"""The tables of the requirement, with its own example and with the right dates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.lakefs.refs.commit_graph import RepositoryBranch, RepositoryCommit, make_refs
from lakesweep.lifecycle.columns import BRANCH_LAST
from lakesweep.lifecycle.judge.commit_selection import (
    LastSweep,
    branch_last,
    commit_rows,
    current_rule,
    midnight,
    policy_table,
    potential_commits,
    required_commits,
)
from lakesweep.lifecycle.policy.ref_retention import find_keepers
from lakesweep.lifecycle.run_history import LifecycleRunRecord
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.sweep.columns import HASHES
from tests.lifecycle_runs import policy_of

RULE1 = {"prefix": "foo/bar", "days": 10, "branch_days": {"b1": 5, "b2": 8}}
RULE2 = {"prefix": "foo/zoo", "branch_days": {"b1": 5}}


def january(day: int, hour: int = 0) -> datetime:
    return datetime(1998, 1, day, hour, tzinfo=UTC)


def rows(table: pa.Table, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


NOW = policy_table(policy_of({"rule1": RULE1, "rule2": RULE2}), "2", january(20, 13))
BEFORE = policy_table(policy_of({"rule1": RULE1}), "1", january(19, 1))


def test_the_policy_table() -> None:
    """The requirement prints 18 January for b2, which would be two days, not eight."""
    assert rows(NOW, "run_id", "rule_id", "prefix", "branch", "date_to_be_deleted") == [
        ("2", "rule1", "foo/bar", None, january(10)),
        ("2", "rule1", "foo/bar", "b1", january(15)),
        ("2", "rule1", "foo/bar", "b2", january(12)),
        ("2", "rule2", "foo/zoo", "b1", january(15)),
    ]


def test_tags_have_rows_of_their_own() -> None:
    table = policy_table(policy_of({"r": {"prefix": "a", "tag_days": {"v1": 3}}}), "1", january(20))
    assert rows(table, "branch", "tag", "days") == [(None, "v1", 3)]
    assert current_rule(table, None).num_rows == 0


def test_the_current_rules() -> None:
    assert rows(current_rule(NOW, BEFORE), "prefix", "branch", "last_deleted") == [
        ("foo/bar", None, january(9)),
        ("foo/bar", "b1", january(14)),
        ("foo/bar", "b2", january(11)),
        ("foo/zoo", "b1", None),
    ]


def test_without_a_run_that_swept_nothing_was_deleted() -> None:
    assert set(rows(current_rule(NOW, None), "last_deleted")) == {(None,)}


def test_of_two_rules_with_one_prefix_the_older_date_counts() -> None:
    twice = policy_of({"x": {"prefix": "a", "days": 5}, "y": {"prefix": "a", "days": 9}})
    before = policy_table(twice, "1", january(19))
    now = policy_table(twice, "2", january(20))
    assert set(rows(current_rule(now, before), "last_deleted")) == {(january(10),)}


@pytest.mark.parametrize(
    ("then", "last"),
    [
        ({"r": {"prefix": "a", "days": 5}}, january(14)),  # shorter then: its date, though later
        ({"other": {"prefix": "a", "days": 9}}, january(10)),  # ids do not count
        ({"r": {"prefix": "a/b", "days": 9}}, None),  # another prefix is another rule
        ({"r": {"prefix": "a", "days": 9, "enabled": False}}, None),  # switched on again is new
        ({"r": {"prefix": "a", "branch_days": {"main": 9}}}, None),  # was not for all branches
    ],
)
def test_a_rule_that_was_changed_goes_on_where_its_prefix_and_branch_ended(
    then: dict[str, dict[str, object]], last: datetime | None
) -> None:
    now = policy_table(policy_of({"r": {"prefix": "a", "days": 9}}), "2", january(20))
    before = policy_table(policy_of(then), "1", january(19))
    assert rows(current_rule(now, before), "last_deleted") == [(last,)]


def test_a_commit_of_the_very_cut_off_may_hold_what_was_left() -> None:
    policy = policy_of({"r": {"prefix": "a", "days": 10}})
    cutoff = january(9)
    moments = {"before": cutoff - timedelta(seconds=1), "at": cutoff, "head": january(19)}
    commits = [
        RepositoryCommit(id_, tuple(moments)[:place][-1:], "", moment)
        for place, (id_, moment) in enumerate(moments.items())
    ]
    refs = make_refs(commits, [RepositoryBranch("main", "head")], [])
    run = LifecycleRunRecord("1", january(19, 5), policy.sha256, "", {"main": "head"}, {}, (), "")
    found = potential_commits(
        refs,
        policy,
        find_keepers(refs, policy),
        LastSweep(run, frozenset(moments), NOW, Dataset("", HASHES, (), 0, "")),
        tags_protect_history=False,
    )
    assert found == {"at", "head"}


def test_the_last_date_of_each_branch() -> None:
    assert rows(branch_last(current_rule(NOW, BEFORE)), "branch", "last_deleted") == [
        (None, january(9)),
        ("b1", None),
        ("b2", january(11)),
    ]


def test_the_dates_of_the_requirement_take_the_commits_that_it_names() -> None:
    last = pa.Table.from_pylist(
        [
            {"branch": None, "last_deleted": january(9)},
            {"branch": "b1", "last_deleted": None},
            {"branch": "b2", "last_deleted": january(11)},
            {"branch": "b3", "last_deleted": january(5)},
        ],
        schema=BRANCH_LAST,
    )
    taken = {}
    for names in (["b1"], ["b3"], ["b1", "b3"], ["b1", "b2", "b3"], []):
        days = range(1, 20)
        commits = [RepositoryCommit(f"{day:02}", (), "", january(day)) for day in days]
        head = RepositoryCommit("head", tuple(commit.id for commit in commits), "", january(20))
        refs = make_refs([*commits, head], [RepositoryBranch(name, "head") for name in names], [])
        found = sorted(id_ for id_ in required_commits(refs, last) if id_ != "head")
        taken[tuple(names)] = found[0] if found else None
    assert taken == {
        ("b1",): "01",
        ("b3",): "06",
        ("b1", "b3"): "06",
        ("b1", "b2", "b3"): "10",
        (): None,
    }


def test_the_table_of_commits_has_all_branches() -> None:
    """Also those that came by a merge, however many there are; and commits on no branch."""
    names = [f"b{number:04}" for number in range(3_000)]
    chain = [("first", ()), ("left", ("first",)), ("right", ("first",)), ("lost", ("first",))]
    commits = [
        RepositoryCommit(name, parents, "", january(day + 1))
        for day, (name, parents) in enumerate([*chain, ("merged", ("left", "right"))])
    ]
    branches = [RepositoryBranch(name, "merged") for name in names]
    refs = make_refs(commits, [*branches, RepositoryBranch("side", "right")], [])
    table = pa.Table.from_batches(commit_rows(refs, dict.fromkeys(refs.commits, True)))
    assert {row["commit_id"]: row["branches"] for row in table.to_pylist()} == {
        "first": [*names, "side"],
        "left": names,
        "right": [*names, "side"],
        "merged": names,
        "lost": [],
    }


@pytest.mark.parametrize("hour", [0, 23])
def test_days_begin_at_midnight_in_utc(hour: int) -> None:
    assert midnight(january(20, hour), 3) == january(17)
