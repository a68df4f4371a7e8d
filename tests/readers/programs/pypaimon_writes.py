"""Writes tables of many kinds with pypaimon, and prints their names.

Runs in an environment of its own: `pypaimon_writes.py WAREHOUSE OUTSIDE`, where files that belong
to tables and lie outside them go below the second folder.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COMMITS, ROWS = 3, 5
warehouse, outside = sys.argv[1:]
catalog = CatalogFactory.create({"warehouse": warehouse})
catalog.create_database("db", True)

evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
roots = {"data-file.external-paths": f"file://{outside}/a,file://{outside}/b"}
strategy = "data-file.external-paths.strategy"
tables: dict[str, dict[str, Any]] = {
    "plain": {},
    "parts": {"partition_keys": ["dt"]},
    "external": {"partition_keys": ["dt"], "options": {**roots, strategy: "round-robin"}},
    "entropy": {"options": {**roots, strategy: "entropy-inject"}},
    "data_folder": {"partition_keys": ["dt"], "options": {"data-file.path-directory": "data"}},
    "fixed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id"], "options": {"bucket": "-1"}},
    "postponed": {"primary_keys": ["id"], "options": {"bucket": "-2"}},
    "row_sidecars": {"options": {**evolving, "data-evolution.row-sidecar.enabled": "true"}},
    "btree": {"options": evolving},
    "bitmap": {"options": evolving},
    "btree_outside": {"options": {**evolving, "global-index.external-path": f"file://{outside}/i"}},
}
indexed = {"btree": "btree", "bitmap": "bitmap", "btree_outside": "btree"}


def rows(commit: int) -> pa.Table:
    numbers = pa.array([commit * ROWS + row for row in range(ROWS)], pa.int32())
    texts = pa.array([f"{'ab'[row % 2]}/{commit}:" for row in range(ROWS)])
    fields = [pa.field("id", pa.int32(), nullable=False), pa.field("dt", pa.string())]
    return pa.table([numbers, texts], schema=pa.schema(fields))


def write(table: Any, commit: int) -> None:
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows(commit))
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()


for name, how in tables.items():
    catalog.create_table(f"db.{name}", Schema.from_pyarrow_schema(rows(0).schema, **how), False)
    for commit in range(COMMITS):
        write(catalog.get_table(f"db.{name}"), commit)
    catalog.get_table(f"db.{name}").create_tag("v1")
for name, index in indexed.items():
    catalog.get_table(f"db.{name}").create_global_index("id", index)
sys.stdout.write(json.dumps(list(tables)))
