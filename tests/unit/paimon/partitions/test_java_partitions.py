"""What Java does with partitions, and we in its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.paimon.partitions.partition_expiry import (
    ExpiryRule,
    expire_partitions,
    judge_partitions,
)
from lakesweep.paimon.partitions.partition_specs import partitions_of_specs
from lakesweep.paimon.partitions.snapshot_partitions import list_partitions
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import in_memory, names, open_table
from tests.paimon_states import delta_entries, index_names, newest

PARTITIONED = (
    "append_dt", "append_dt_hr", "append_int", "data_dir", "done_parts", "dropped_parts",
    "expire_auto", "index_in_data", "merged_manifests", "overwritten", "pk_dynamic", "s_append",
    "s_dyn",
)  # fmt: skip
#: What no two commits have in common.
_UNLIKE = frozenset(
    {"uuid", "commitUser", "timeMillis", "indexManifest", "baseManifestList", "deltaManifestList"}
    | {"baseManifestListSize", "deltaManifestListSize"}
)


def _cases(java: JavaTable, kind: str) -> list[dict[str, Any]]:
    return [case for case in java.answer("partitions") if case["case"] == kind]


def _expire(table: PaimonTable, case: dict[str, Any]) -> tuple[list[str], list[PaimonSnapshot]]:
    """The partitions that expire, in Java's words, and the commits that drop them."""
    options = {**case["options"], "partition.expiration-time": case["expiration_time"]}
    rule = ExpiryRule.of(table.options.with_values(options))
    now = datetime.fromisoformat(case["now"]).replace(tzinfo=UTC)
    naming = table.layout.partitioning
    survey = list_partitions(table.main, newest(table))
    verdicts = judge_partitions(survey, naming, rule, now)
    expired = [verdict.partition for verdict in verdicts if verdict.expires]
    texts = [
        [f"{key}={naming.text(value, at)}" for at, key in enumerate(naming.names)
         for value in [partition.values[at]]]
        for partition in expired
    ]  # fmt: skip
    done = expire_partitions(table.main, rule, now, expired)
    commits = [each.snapshot for each in done if each.snapshot is not None]
    return [f"{{{', '.join(text)}}}" for text in texts], commits


def _drop(table: PaimonTable, specs: list[dict[str, str]]) -> list[PaimonSnapshot]:
    survey = list_partitions(table.main, newest(table))
    found = partitions_of_specs(specs, table.layout.partitioning, survey.partitions.values())
    chosen = {partition.data for partition in found}
    snapshot = drop_partitions(table.main, lambda _: chosen, operation="TRUNCATE").snapshot
    return [] if snapshot is None else [snapshot]


def _said(document: Any) -> dict[str, Any]:
    """What a snapshot says, and of what differs in any case only that it is said."""
    return {name: name if name in _UNLIKE else value for name, value in document.items()}


def _kinds(paths: Iterable[str]) -> Counter[str]:
    """How many manifests, lists and index manifests there are among new files."""
    return Counter(re.sub(r"[0-9a-f]{8}-.*|\d+$", "", Path(path).name) for path in paths)


def _check_commits(
    table: PaimonTable,
    new_files: Iterable[str],
    commits: list[PaimonSnapshot],
    case: dict[str, Any],
) -> None:
    expected = case["new_snapshots"]
    assert [_said(commit.raw) for commit in commits] == [_said(each["json"]) for each in expected]
    for commit, each in zip(commits, expected, strict=True):
        assert delta_entries(table, commit) == sorted(
            (
                entry["kind"], entry["path"], int(entry["bucket"]), int(entry["total_buckets"]),
                int(entry["level"]), int(entry["rows"]),
            )
            for entry in each["delta"]
        )  # fmt: skip
    assert _kinds(new_files) == _kinds(case["created"])
    if "index_after" in case and commits:
        names = {Path(path).name for path in case["index_after"]}
        assert index_names(table, commits[-1]) == names


@pytest.mark.parametrize("name", PARTITIONED)
def test_the_same_partitions_expire_in_the_same_commits(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    original = in_memory(java)
    for case in _cases(java, "expire_partitions"):
        store = original.copy_all()
        table = open_table(store)
        returned, commits = _expire(table, case)
        assert returned == case["returned"]
        _check_commits(table, names(store).keys() - names(original), commits, case)


@pytest.mark.parametrize("name", ["append_date", *PARTITIONED])
def test_the_same_partitions_are_dropped_in_the_same_commit(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    original = in_memory(java)
    for case in _cases(java, "drop_partition"):
        store = original.copy_all()
        table = open_table(store)
        commits = _drop(table, case["specs"])
        if case["new_snapshots"][0]["delta"]:
            _check_commits(table, names(store).keys() - names(original), commits, case)
        else:  # Java commits a snapshot without any change
            assert names(store) == names(original)
            assert commits == []


def test_date_partitions_expire_which_java_never_lets_happen(java_tables: JavaWarehouses) -> None:
    table = open_table(in_memory(java_tables.table("append_date")))
    case = {"now": "2020-03-02T00:00:01", "options": {}, "expiration_time": "1 d"}
    returned, commits = _expire(table, case)
    assert returned == ["{day=18321}", "{day=18322}"]
    assert len(commits) == 1
