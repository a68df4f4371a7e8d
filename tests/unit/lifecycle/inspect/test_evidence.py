"""What is told of one address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.inspect.evidence import Evidence
from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import LOCATION, NOW, Model, entry
from tests.lifecycle_runs import going, policy_of, rows_of, run
from tests.processes import scratch_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder("lifecycle") as path:
        yield path


def told(model: Model, policy: LifecyclePolicy, folder: Path, address: str) -> list[dict[str, Any]]:
    found = run(model, policy, folder)
    staged = load_dataset(Stores(), found.verdicts.address.replace("verdicts", "staged"))
    evidence = Evidence(
        Stores(), StorageNamespace(LOCATION), found.segments, model.refs(), policy, NOW, staged
    )
    rows = [row for batch in evidence.of(address) for row in batch.to_pylist()]
    keeps = any(row["keeps"] for row in rows)
    assert keeps == (rows_of(found)[address]["verdict"] == "keep")
    assert rows
    return rows


def test_names_every_commit_path_ref_and_rule(folder: Path) -> None:
    model = Model()
    first = model.commit("main", {"foo/bar/a": entry("data/1", 50)}, days=50)
    model.commit("main", {"foo/bar/b": entry("data/1", 50)}, days=40)
    model.commit("main", {}, days=30)
    model.tags["v1"] = first
    policy = policy_of({"r": {"prefix": "foo/bar", "days": 20, "tag_days": {"v1": 60}}})
    rows = told(model, policy, folder, "data/1")
    assert {
        (row["path"], row["ref_kind"], row["ref"], row["rule"], row["why"]) for row in rows
    } == {
        ("foo/bar/a", "branch", "main", "r", "expired"),
        ("foo/bar/a", "tag", "v1", "r", "not-due"),
        ("foo/bar/b", "branch", "main", "r", "expired"),
    }


def test_what_is_staged_and_what_a_head_holds_keeps(folder: Path) -> None:
    model = Model(staged=[("main", "data/1")])
    model.commit("main", {"foo/bar/a": entry("data/1", 50)}, days=50)
    policy = policy_of({"r": {"prefix": "foo/bar", "days": 20}})
    whys = [row["why"] for row in told(model, policy, folder, "data/1")]
    assert whys == ["staged", "head", "expired"]


def test_agrees_with_the_verdict_on_what_goes(folder: Path) -> None:
    model = Model()
    model.commit("main", {"foo/bar/a": entry("data/1", 50)}, days=50)
    model.commit("main", {}, days=30)
    policy = policy_of({"r": {"prefix": "foo/bar", "days": 20}})
    assert not any(row["keeps"] for row in told(model, policy, folder, "data/1"))
    assert going(run(model, policy, folder)) == {"data/1"}
