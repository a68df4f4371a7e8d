"""Random histories of writers, expiries, rewrites and sweeps: no snapshot that stays changes.

The oracle is a dict: what PyIceberg read of each snapshot when it was written. Whatever the table
still lists reads the same, however the steps are mixed, and upkeep removes nothing that a ref
holds.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.config import Config
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, apply_plan
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.operations.upkeep.iceberg_rewrites import (
    MergeManifests,
    RewriteTablesRequest,
    rewrite_table,
)
from lakesweep.operations.upkeep.iceberg_trim import TrimTablesRequest, trim_table
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.random_tests import Machine, examples

NAME = "lake.shop.t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "p", LongType(), required=False),
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))


def agree(preview: object) -> None:
    """Agree to everything."""


class Upkeep(Machine):
    """One table, everybody who changes it, and what each snapshot held when it was new."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(mkdtemp(prefix="upkeep-"))
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder / 'catalog.db'}",
            "warehouse": str(self.folder / "lake"),
        }
        self.catalog = SqlCatalog("lake", **properties)
        self.catalog.create_namespace("shop")
        self.catalog.create_table("shop.t", SCHEMA, partition_spec=SPEC)
        root = {"type": "iceberg-catalog", "name": "lake", "properties": properties}
        lake = {"locations": [str(self.folder / "lake")], "roots": [root], "grace": "0s"}
        self.app = App(Config.model_validate({"lakes": {"l": lake}}), folder=self.folder)
        self.known: dict[int, list[Any]] = {}
        self.next = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.t")

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        ids = list(range(self.next, self.next + count))
        self.next += count
        rows = {"id": pa.array(ids, pa.int64()), "p": pa.array([i % 3 for i in ids], pa.int64())}
        self.table.append(pa.table(rows))
        self._learn()

    @rule(which=st.integers(0, 30))
    def delete(self, which: int) -> None:
        if self.table.current_snapshot() is not None:
            self.table.delete(f"id = {which}")
            self._learn()

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 10), name=st.sampled_from(["a", "b"]))
    def tag(self, which: int, name: str) -> None:
        ids = [each.snapshot_id for each in self.table.snapshots()]
        with self.table.manage_snapshots() as changes:
            changes.create_tag(ids[which % len(ids)], name)

    @precondition(lambda self: self.known)
    @rule(keep=st.integers(1, 4), clean=st.booleans())
    def expire(self, keep: int, clean: bool) -> None:
        held = {ref.snapshot_id for ref in self.table.refs().values()}
        now = millis(self.app.clock.now()) + 1
        terms = ExpiryTerms(RetentionArguments(older_than_ms=now, retain_last=keep), clean)
        request = ExpireTablesRequest(refs=(NAME,), terms=terms)
        result = expire_table(self.app, NAME, request, agree)
        assert result.failures == []
        assert held <= {each.snapshot_id for each in self.table.snapshots()}
        for each in result.expired_snapshots:
            self.known.pop(each, None)

    @precondition(lambda self: self.known)
    @rule()
    def merge(self) -> None:
        current = self.table.current_snapshot()
        request = RewriteTablesRequest(refs=(NAME,), task=MergeManifests())
        result = rewrite_table(self.app, NAME, request, agree)
        if result.snapshot_id is not None and current is not None:
            self.known[result.snapshot_id] = self.known[current.snapshot_id]

    @rule()
    def trim(self) -> None:
        request = TrimTablesRequest(refs=(NAME,), grace=timedelta())
        trim_table(self.app, NAME, request, agree)

    @precondition(lambda self: self.known)
    @rule()
    def sweep(self) -> None:
        overrides = ("first-run", "share", "grace", "live-fell", "zero-live")
        made = plan_lake(self.app, PlanLakeRequest("l", engine=EngineName.LOCAL))
        request = ApplyPlanRequest(made.plan, engine=EngineName.LOCAL, overridden=overrides)
        apply_plan(self.app, request, agree)

    @invariant()
    def every_snapshot_reads_as_when_it_was_new(self) -> None:
        if not hasattr(self, "catalog"):
            return
        table = self.table
        listed = {each.snapshot_id for each in table.snapshots()}
        assert listed == self.known.keys()
        for each in listed:
            assert _rows(table, each) == self.known[each]

    def _learn(self) -> None:
        table = self.table
        for each in table.snapshots():
            if each.snapshot_id not in self.known:
                self.known[each.snapshot_id] = _rows(table, each.snapshot_id)


def _rows(table: Table, snapshot: int) -> list[Any]:
    found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


TestUpkeep = Upkeep.TestCase
TestUpkeep.settings = examples(3, steps=8)
