"""What goes and what stays: the examples of the requirement, and what protects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError, RefusedError, UnreadableError
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.judge.engine import LocalLifecycleEngine
from lakesweep.lifecycle.judge.pipeline import LifecycleSpec, judge_addresses
from lakesweep.lifecycle.run_history import LifecycleRunState
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.storage.datasets.writer import commit_dataset, write_dataset
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import LOCATION, NOW, Model, entry, write_repository
from tests.lakefs_tables import Entry
from tests.lifecycle_runs import (
    documents_of,
    forget_documents,
    going,
    history_of,
    home_of,
    judge,
    policy_of,
    read_rows,
    results_of,
    rows_of,
    run,
    sweep,
)

BAR = policy_of({"r": {"prefix": "foo/bar", "days": 10}})


def history(*trees: dict[str, Entry]) -> Model:
    """Commits on main, the first of them 100 days ago; then one that holds nothing."""
    model = Model()
    for number, tree in enumerate((*trees, {})):
        model.commit("main", tree, days=100 - number)
    return model


def test_an_object_goes_when_all_its_branches_let_it_go(folder: Path) -> None:
    """The table of the issue that the requirement comes from (treeverse/lakeFS#2365)."""
    model = Model()
    both = {"foo/bar/a": entry("data/1", 11), "foo/bar/b": entry("data/2", 9)}
    model.commit("main", both, days=9)
    model.branches["b1"] = model.branches["main"]
    own = {"foo/bar/b": entry("data/3", 6), "foo/bar/c": entry("data/4", 4)}
    model.commit("b1", {**both, **own, "other/a": entry("data/5", 100)}, days=4)
    rule = {"prefix": "foo/bar", "days": 10, "branch_days": {"b1": 5}}
    expire = policy_of({"r": {**rule, "expire_heads": True}})
    assert going(run(model, expire, folder)) == {"data/1", "data/3"}
    assert going(run(model, policy_of({"r": rule}), folder)) == set()


def test_an_address_with_another_path_goes_only_with_it(folder: Path) -> None:
    """The requirement's example of deduplication."""
    tree = {"foo/bar/a": 1, "foo/bar/b": 4, "foo/tar/a": 1, "foo/tar/b": 2, "foo/other/c": 2}
    model = history({path: entry(f"data/{number}", 50) for path, number in tree.items()})
    rules = {name: {"prefix": name, "days": 10} for name in ("foo/bar", "foo/tar")}
    found = run(model, policy_of(rules), folder)
    assert going(found) == {"data/1", "data/4"}
    assert rows_of(found)["data/2"]["reason"] == "uncovered"
    named = results_of(found)
    assert named["data/1"]["paths"] == ["foo/bar/a", "foo/tar/a"]
    assert named["data/4"]["matched_rules"] == [
        "foo/bar/b: foo/bar (prefix 'foo/bar') on branch main before 2026-11-05"
    ]


def test_all_paths_of_an_address_are_named_each_once(folder: Path) -> None:
    many = sorted(f"foo/bar/{number:04}" for number in range(1_200))
    trees = [
        {path: entry("data/1", 50) for path in many},
        {many[0]: entry("data/1", 60), "foo/bar/z": entry("data/2", 50)},
    ]
    found = results_of(run(history(*trees), BAR, folder))
    one, two = found["data/1"], found["data/2"]
    assert one["paths"] == many
    assert [text.split(": ")[0] for text in one["matched_rules"]] == many
    assert two["paths"] == ["foo/bar/z"]


@pytest.mark.parametrize(
    ("days", "goes"), [(10.5, False), (10.4999, False), (10.5001, True), (10, False), (-1, False)]
)
def test_an_object_is_due_before_midnight_of_its_day(folder: Path, days: float, goes: bool) -> None:
    model = history({"foo/bar/a": entry("data/1", days)})
    assert bool(going(run(model, BAR, folder))) is goes


def test_the_longest_rule_counts(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 50)})
    rules = {"short": {"prefix": "foo", "days": 10}, "long": {"prefix": "foo/bar", "days": 60}}
    row = rows_of(run(model, policy_of(rules), folder))["data/1"]
    assert (row["reason"], row["rule"]) == ("not-due", "long")


def _tag(model: Model) -> None:
    model.tags["v1"] = next(iter(model.commits))


def _branch(model: Model) -> None:
    model.branches["old"] = next(iter(model.commits))


def _stage(model: Model) -> None:
    model.staged.append(("main", "data/1"))


def _import(model: Model) -> None:
    model.commit("x", {"y": entry(f"{LOCATION}/data/1", 60, full=True)}, days=60)


def _undated(model: Model) -> None:
    model.commit("x", {"foo/bar/z": Entry("data/1", 0)}, days=60)


def _elsewhere(model: Model) -> None:
    model.commit("x", {"other": entry("data/1", 60)}, days=60)


def _younger(model: Model) -> None:
    model.commit("x", {"foo/bar/z": entry("data/1", 3)}, days=60)
    model.commit("x", {}, days=59)


def _odd(model: Model) -> None:
    model.commit("x", {"y": entry(f"{LOCATION}/data/%31", 60, full=True)}, days=60)


@pytest.mark.parametrize(
    ("protect", "reason"),
    [
        (_tag, "tagged"),
        (_branch, "head"),
        (_stage, "staged"),
        (_import, "imported"),
        (_odd, "imported"),
        (_undated, "age-unknown"),
        (_elsewhere, "uncovered"),
        (_younger, "not-due"),
    ],
)
def test_what_is_added_to_a_repository_only_protects(
    folder: Path, protect: Callable[[Model], None], reason: str
) -> None:
    model = history({"foo/bar/a": entry("data/1", 60), "foo/bar/b": entry("data/2", 60)})
    assert going(run(model, BAR, folder)) == {"data/1", "data/2"}
    protect(model)
    found = run(model, BAR, folder)
    assert "data/1" not in going(found)
    assert rows_of(found)["data/1"]["reason"] == reason


def test_a_policy_that_is_not_enabled_lets_nothing_go(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    policy = policy_of({"r": {"prefix": "foo/bar", "days": 10, "enabled": False}})
    assert rows_of(run(model, policy, folder)) == {}


@pytest.mark.parametrize(
    "address",
    ["_lakefs/x", "dummy", "data/../x", "data/", "0123456789abcdef0123456789abcdef", "other/x"],
)
def test_only_what_the_server_wrote_may_go(folder: Path, address: str) -> None:
    model = history({"foo/bar/a": entry(address, 60)})
    assert going(run(model, BAR, folder)) == set()


def test_objects_of_early_versions_never_go(folder: Path) -> None:
    address = "0123456789abcdef0123456789abcdef"
    model = history({"foo/bar/a": entry(address, 60)})
    assert going(run(model, BAR, folder)) == set()


def test_tags_let_go_by_days_of_their_own(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    _tag(model)
    rule = {"prefix": "foo/bar", "days": 10, "tag_days": {"v*": 50}}
    assert going(run(model, policy_of({"r": rule}), folder)) == {"data/1"}


@pytest.mark.parametrize("days", [{"days": 100}, {"branch_days": {"main": 10}}])
def test_a_tag_never_lets_go_what_is_kept_without_it(folder: Path, days: dict[str, Any]) -> None:
    """Of what no branch has any more `days` has a say, whether or not a tag is on it."""
    model = Model()
    model.commit("main", {}, days=90)
    dangling = model.commit(None, {"foo/bar/a": entry("data/1", 60)}, days=60)
    policy = policy_of({"r": {"prefix": "foo/bar", "tag_days": {"v*": 10}, **days}})
    assert going(run(model, policy, folder)) == set()
    model.tags["v1"] = dangling
    assert going(run(model, policy, folder)) == set()


def test_what_a_tag_reaches_is_kept_where_it_is_asked_for(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    model.tags["v1"] = model.branches["main"]
    assert going(run(model, BAR, folder)) == {"data/1"}
    assert going(run(model, BAR, folder, tags_protect_history=True)) == set()


def test_commits_on_no_branch_follow_the_days_for_all(folder: Path) -> None:
    model = Model()
    model.commit("main", {}, days=90)
    model.commit(None, {"foo/bar/a": entry("data/1", 60)}, days=60)
    assert going(run(model, BAR, folder)) == {"data/1"}
    named = policy_of({"r": {"prefix": "foo/bar", "branch_days": {"main": 10}}})
    assert going(run(model, named, folder)) == set()


@pytest.mark.parametrize("how", ["deleted", "moved back"])
def test_a_branch_that_is_gone_holds_for_a_while(folder: Path, how: str) -> None:
    model = Model()
    first = model.commit("main", {}, days=90)
    model.branches["work"] = first
    model.commit("work", {"foo/bar/a": entry("data/1", 60)}, days=60)
    run(model, BAR, folder, now=NOW - timedelta(days=8))
    if how == "deleted":
        del model.branches["work"]
    else:
        model.branches["work"] = first
    gone = run(model, BAR, folder, now=NOW - timedelta(days=7, hours=1))
    assert rows_of(gone)["data/1"]["reason"] == "branch-deleted"
    assert going(run(model, BAR, folder, now=NOW - timedelta(hours=2))) == set()
    assert going(run(model, BAR, folder)) == {"data/1"}


def _forge_records(folder: Path) -> None:
    """Make all records of runs tell of no branch."""
    for path in (folder / "lc" / "runs").rglob("*.json"):
        told = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode({**told, "branches": {}, "lost": []}))


def _remove_records(folder: Path) -> None:
    for path in (folder / "lc" / "runs").rglob("*.json"):
        path.unlink()


@pytest.mark.parametrize("harm", [_forge_records, _remove_records])
def test_the_grace_of_a_branch_does_not_depend_on_the_bucket(
    folder: Path, harm: Callable[[Path], None]
) -> None:
    model = Model()
    model.branches["work"] = model.commit("main", {}, days=90)
    model.commit("work", {"foo/bar/a": entry("data/1", 60)}, days=60)
    run(model, BAR, folder, now=NOW - timedelta(hours=2))
    del model.branches["work"]
    harm(folder)
    assert rows_of(run(model, BAR, folder))["data/1"]["reason"] == "branch-deleted"


def test_a_store_without_memory_believes_the_files_of_others(folder: Path) -> None:
    model = Model()
    model.branches["work"] = model.commit("main", {}, days=90)
    model.commit("work", {"foo/bar/a": entry("data/1", 60)}, days=60)
    run(model, BAR, folder, now=NOW - timedelta(hours=2))
    del model.branches["work"]
    forget_documents(folder)
    assert rows_of(run(model, BAR, folder))["data/1"]["reason"] == "branch-deleted"


def test_refs_that_forgot_what_the_last_run_saw_are_counted(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    assert run(model, BAR, folder).forgotten == 0
    head = model.branches.pop("main")
    [model.branches["main"]] = model.commits.pop(head).parents
    assert run(model, BAR, folder).forgotten == 1


@pytest.mark.parametrize("whose", ["of another repository", "of a clock that was wrong"])
def test_a_run_in_between_does_not_shorten_the_grace_of_a_branch(folder: Path, whose: str) -> None:
    model = Model()
    first = model.commit("main", {}, days=90)
    old = run(model, BAR, folder, now=NOW + timedelta(days=400)).record
    model.branches["work"] = first
    model.commit("work", {"foo/bar/a": entry("data/1", 60)}, days=60)
    run(model, BAR, folder, now=NOW - timedelta(hours=2))
    if whose == "of another repository":
        history_of(folder, "s3://lake/other").record(msgspec.structs.replace(old, started=NOW))
    del model.branches["work"]
    assert rows_of(run(model, BAR, folder))["data/1"]["reason"] == "branch-deleted"


def test_without_knowing_what_is_staged_nothing_is_judged(folder: Path) -> None:
    repository = write_repository(history({"foo/bar/a": entry("data/1", 60)}), folder / "repo")
    documents = documents_of(folder)
    spec = LifecycleSpec(repository, BAR, "run", NOW, f"{folder}/work", documents, home_of(folder))
    engine, refs = LocalLifecycleEngine(Stores()), repository.read_refs()
    with pytest.raises(RefusedError, match="staged"):
        judge_addresses(spec, engine, refs, None)
    assert going(judge_addresses(replace(spec, without_staging=True), engine, refs, None))


def test_a_missing_range_ends_the_run(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)}, {"x": entry("data/2", 60)})
    repository = write_repository(model, folder / "repo")
    made = next(iter(model.commits.values()))
    (folder / "repo" / "_lakefs" / made.ranges[0].id).unlink()
    with pytest.raises(UnreadableError, match="a commit needs it"):
        judge(repository, BAR, folder)


def test_a_second_run_parses_what_is_new(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    assert run(model, BAR, folder).figures["ranges_parsed"] == 1
    assert run(model, BAR, folder).figures["ranges_parsed"] == 0
    model.commit("main", {"new": entry("data/2", 1), "zoo": entry("data/3", 1)}, days=1)
    new = run(model, BAR, folder)
    assert 1 <= new.figures["ranges_parsed"] <= 2
    assert new.figures["ranges"] == 1 + new.figures["ranges_parsed"]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x81  # in a text this makes no letter
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [_flip, Path.unlink])
@pytest.mark.parametrize(
    "name",
    [*(f"{name}/part-*" for name in ("entries", "ranges", "edges", "metaranges")), "_segment.json"],
)
def test_what_is_cached_and_damaged_is_read_again(
    folder: Path, name: str, harm: Callable[[Path], None]
) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)}, {"foo/bar/a": entry("data/2", 60)})
    expected = going(run(model, BAR, folder))
    harm(next((folder / "lc" / "cache").glob(f"*/*/{name}")))
    found = run(model, BAR, folder)
    assert going(found) == expected == {"data/1", "data/2"}
    assert found.figures["ranges_parsed"] == 2


def _forge_segment(folder: Path, name: str) -> None:
    """Empty a dataset of a cached segment, with hashes that agree: a writer of the bucket can."""
    [segment] = (folder / "lc" / "cache").glob("*/*/_segment.json")
    before = load_dataset(Stores(), f"{segment.parent}/{name}")
    (segment.parent / name / "_dataset.json").unlink()
    empty = commit_dataset(Stores(), before.address, [], before.schema)
    segment.write_text(segment.read_text().replace(before.sha256, empty.sha256))


@pytest.mark.parametrize("name", ["entries", "ranges", "edges"])
def test_a_forged_cache_deletes_nothing_that_a_head_holds(folder: Path, name: str) -> None:
    """Entries of a HEAD that the cache lacks would no longer keep their objects."""
    model = Model()
    model.commit("main", {"foo/bar/a": entry("data/1", 60)}, days=60)
    model.branches["dev"] = model.branches["main"]
    model.commit("main", {}, days=50)
    assert going(run(model, BAR, folder)) == set()
    _forge_segment(folder, name)
    model.commit("main", {"foo/bar/b": entry("data/1", 60)}, days=40)
    model.commit("main", {}, days=30)
    found = run(model, BAR, folder)
    assert going(found) == set()
    assert rows_of(found)["data/1"]["reason"] == "head"


def test_a_segment_that_nobody_recorded_is_not_read(folder: Path) -> None:
    """The cache of another store, or one that was put there, is read again from the repository."""
    model = history({"foo/bar/a": entry("data/1", 60)})
    run(model, BAR, folder)
    forget_documents(folder)
    assert run(model, BAR, folder).figures["ranges_parsed"] == 1


def test_damage_that_is_none_of_the_cache_is_told(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    repository = write_repository(model, folder / "repo")
    _flip(folder / "repo" / "_lakefs" / next(iter(model.commits.values())).ranges[0].id)
    with pytest.raises(DamagedError):
        judge(repository, BAR, folder)


INCREMENTAL: dict[str, Any] = {"selection": Selection.INCREMENTAL}


def test_an_incremental_run_looks_at_what_is_new(folder: Path) -> None:
    model = history({f"foo/bar/{number}": entry(f"data/{number}", 60) for number in range(9)})
    first = run(model, BAR, folder, **INCREMENTAL)
    assert first.full == "no earlier run has deleted anything"
    assert len(going(first)) == 9
    sweep(first, folder)
    model.commit("main", {"foo/bar/x": entry("data/x", 30)}, days=0.3)
    model.commit("main", {}, days=0.2)
    second = run(model, BAR, folder, **INCREMENTAL)
    assert second.full is None
    assert second.figures["potential_commits"] == 3  # two new ones, and what was HEAD
    assert rows_of(second).keys() == going(second) == {"data/x"}


def test_a_run_that_did_not_sweep_is_not_built_upon(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    first = run(model, BAR, folder, **INCREMENTAL)
    history_of(folder).finish(first.record, LifecycleRunState.PARTIAL, NOW, {})
    again = run(model, BAR, folder, **INCREMENTAL)
    assert again.full == "no earlier run has deleted anything"
    assert going(again) == {"data/1"}


def test_a_run_that_swept_by_a_clock_that_was_wrong_is_not_built_upon(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 9)})
    sweep(run(model, BAR, folder, now=NOW + timedelta(days=400)), folder)
    found = run(model, BAR, folder, now=NOW + timedelta(2), selection=Selection.INCREMENTAL)
    assert "in the future" in (found.full or "")
    assert going(found) == {"data/1"}


def test_another_policy_asks_for_a_full_run(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60), "foo/tar/a": entry("data/2", 60)})
    sweep(run(model, BAR, folder, **INCREMENTAL), folder)
    wider = policy_of({"r": {"prefix": "foo", "days": 10}})
    found = run(model, wider, folder, **INCREMENTAL)
    assert found.full == "the policy has changed since the last run that deleted"
    assert "data/2" in going(found)


@pytest.mark.parametrize("name", ["commits", "policy", "waiting"])
def test_a_table_that_was_changed_asks_for_a_full_run(folder: Path, name: str) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    sweep(run(model, BAR, folder, **INCREMENTAL), folder)
    [manifest] = (folder / "lc" / name).rglob("_dataset.json")
    before = load_dataset(Stores(), str(manifest.parent))
    rows = [] if before.rows else [pa.RecordBatch.from_pylist([{"h1": 1, "h2": 1}], before.schema)]
    manifest.unlink()
    write_dataset(Stores(), before.address, before.schema, rows)
    found = run(model, BAR, folder, **INCREMENTAL)
    assert "were changed" in (found.full or "")


def test_what_was_staged_is_looked_at_again(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    _stage(model)
    sweep(run(model, BAR, folder, **INCREMENTAL), folder)
    model.staged.clear()
    assert going(run(model, BAR, folder, **INCREMENTAL)) == {"data/1"}


PROPOSED: dict[str, Any] = {"selection": Selection.REQUIREMENT, "as_proposed": True}


def test_the_proposal_step_by_step(folder: Path) -> None:
    """Its own policy, and its example of deduplication, on a HEAD that it does not spare."""
    rules = {"rule1": {"prefix": "foo/bar", "days": 10, "branch_days": {"b1": 5, "b2": 8}}}
    rules["rule2"] = {"prefix": "foo/tar", "days": 10}
    policy = policy_of(rules).as_proposed()
    named = {"foo/bar/a": 1, "foo/bar/b": 4, "foo/tar/a": 1, "foo/tar/b": 2, "foo/other/c": 2}
    model = Model()
    entries = {path: entry(f"data/{number}", 50) for path, number in named.items()}
    model.commit("main", {**entries, "foo/barn": entry("data/5", 50)}, days=40)
    first = run(model, policy, folder, **PROPOSED)
    assert going(first) == {"data/1", "data/4", "data/5"}
    assert rows_of(first)["data/2"]["reason"] == "uncovered"
    sweep(first, folder)
    last = read_rows(folder, "branch_last")
    assert [(row["branch"], row["last_deleted"]) for row in last] == [
        (None, None),
        ("b1", None),
        ("b2", None),
    ]

    # What lives in a commit that the last run examined is a deduplication for ever.
    tree = {"foo/bar/x": entry("data/6", 50), "foo/bar/b": entry("data/4", 50)}
    model.commit("main", tree, days=1)
    model.staged.append(("main", "data/7"))
    second = run(model, policy, folder, **PROPOSED)
    assert going(second) == {"data/6"}
    assert rows_of(second)["data/4"]["reason"] == "deduplicated"


@pytest.mark.parametrize(
    ("protect", "reason"), [(_tag, "tagged"), (_stage, "staged"), (_import, "imported")]
)
def test_the_proposal_deletes_nothing_that_tags_or_others_need(
    folder: Path, protect: Callable[[Model], None], reason: str
) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    protect(model)
    found = run(model, BAR.as_proposed(), folder, **PROPOSED)
    assert going(found) == set()
    assert rows_of(found)["data/1"]["reason"] == reason


def test_no_incremental_run_builds_on_the_proposal(folder: Path) -> None:
    model = history({"foo/bar/a": entry("data/1", 60)})
    model.commit(None, {"foo/bar/b": entry("data/2", 60)}, days=60)
    first = run(model, BAR, folder, selection=Selection.REQUIREMENT)
    assert going(first) == {"data/1"}
    sweep(first, folder)
    second = run(model, BAR, folder, **INCREMENTAL)
    assert second.full == "the options have changed since the last run that deleted"
    assert "data/2" in going(second)


def test_the_rule_of_the_requirement_misses_what_a_new_branch_rule_frees(folder: Path) -> None:
    """A commit of two branches of which one had a rule: the other gets one, and it is not new."""
    model = history({"foo/bar/a": entry("data/1", 60)})
    model.branches["b1"] = model.branches["main"]
    one = policy_of({"r": {"prefix": "foo/bar", "branch_days": {"main": 10}}})
    both = policy_of({"r": {"prefix": "foo/bar", "branch_days": {"main": 10, "b1": 10}}})
    sweep(run(model, one, folder), folder)
    assert going(run(model, both, folder, selection=Selection.REQUIREMENT)) == set()
    assert going(run(model, both, folder, **INCREMENTAL)) == {"data/1"}


def test_the_clock_in_an_address_counts(folder: Path) -> None:
    """This xid is of 28 October 2024, whatever the entry says."""
    model = history({"foo/bar/a": entry("data/s/csfnri7n2efc74lfa69g", 5000)})
    rule = policy_of({"r": {"prefix": "foo/bar", "days": 760}})
    assert rows_of(run(model, rule, folder))["data/s/csfnri7n2efc74lfa69g"]["reason"] == "not-due"
