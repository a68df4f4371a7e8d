"""Tables that Iceberg wrote on Spark read the same after our upkeep, in every retained snapshot."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.operations.upkeep.iceberg_rewrites import (
    ExpirePartitions,
    MergeManifests,
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    RewriteTask,
    TableRewriteResult,
    rewrite_table,
)
from lakesweep.operations.upkeep.iceberg_trim import TrimTablesRequest, trim_table
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments

_PEERS = Path(__file__).parents[2] / ".peers"
_PROGRAM = Path(__file__).parent / "programs" / "spark_tables.py"
_SECONDS = 1500
TABLES = ("one", "two", "three", "upgraded")
#: Rows by snapshot, and those of the head with the ids of its rows.
Rows = dict[str, dict[str, list[str]]]


def spark(warehouse: Path, what: str) -> Rows:
    (jar,) = (_PEERS / "jars").glob("*.jar")
    python = _PEERS / "venv" / "bin" / "python"
    words = [str(python), str(_PROGRAM), str(jar), str(warehouse), what]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Rows = json.loads(done.stdout.strip().splitlines()[-1])
    return found


class Warehouse:
    """Tables in folders, as Iceberg's Hadoop catalog has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        self.app = App(Config.model_validate({}), folder=folder)
        self.before = spark(self.folder, "write")

    def ref(self, table: str) -> str:
        return str(self.folder / "db" / table)

    def rewrite(self, table: str, task: RewriteTask) -> TableRewriteResult:
        request = RewriteTablesRequest(refs=(self.ref(table),), task=task)
        return rewrite_table(self.app, self.ref(table), request, agree)

    def expire(self, table: str, **arguments: Any) -> list[int]:
        terms = ExpiryTerms(RetentionArguments(**arguments))
        request = ExpireTablesRequest(
            refs=(self.ref(table),), terms=terms, overrides=frozenset({"outside"})
        )
        return expire_table(self.app, self.ref(table), request, agree).retained_snapshots

    def trim(self, table: str) -> int:
        request = TrimTablesRequest(refs=(self.ref(table),), grace=timedelta())
        return trim_table(self.app, self.ref(table), request, agree).deleted


def agree(preview: object) -> None:
    """Agree to everything."""


def in_order(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(each) for name, each in rows.items()}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(tmp_path_factory.mktemp("spark"))


def test_every_retained_snapshot_reads_as_before(warehouse: Warehouse) -> None:
    results = {table: warehouse.rewrite(table, MergeManifests()) for table in TABLES}
    for table in TABLES:
        warehouse.rewrite(table, RemoveDanglingDeletes())
    merged = spark(warehouse.folder, "read")
    for table, result in results.items():
        assert result.snapshot_id is not None, table
        before, after = in_order(warehouse.before[table]), in_order(merged[table])
        kept = before.keys() - {"head", "manifests"}
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
        # With the ids of rows and the numbers of their last changes, where the table has them.
        # A table gets row ids with its first commit after an upgrade; these are the same then.
        assert after["head"] == before["head"], table
        assert int(after["manifests"][0]) < int(before["manifests"][0])
    for table in TABLES:
        warehouse.rewrite(table, ExpirePartitions("at", datetime(2026, 1, 3, tzinfo=UTC)))
    retained = {}
    for table in TABLES:
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        retained[table] = warehouse.expire(table, older_than_ms=now_ms, retain_last=2)
        warehouse.trim(table)
    left = spark(warehouse.folder, "read")
    for table in TABLES:
        after = in_order(left[table])
        assert {int(name) for name in after.keys() - {"head", "manifests"}} == set(retained[table])
        known = in_order(merged[table])
        for name in after.keys() & known.keys() - {"head", "manifests"}:
            assert after[name] == known[name], (table, name)
        gone = [row for row in after["head"] if row[1:3] in ("10", "11", "12", "13", "20", "23")]
        assert gone == [], table
        assert any(row.startswith("(77") for row in after["head"])
