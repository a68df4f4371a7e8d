"""A server over the document module, used by PyIceberg: it gives the documents of PyIceberg's own.

The same steps run against a SQL catalog, where PyIceberg's model applies the updates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import StringType

from tests.rest_catalog import WritableRestCatalog, rest_catalog

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


def _load(catalog: Catalog) -> Table:
    return catalog.load_table(("n", "t"))


def _evolve(catalog: Catalog) -> None:
    with _load(catalog).update_schema() as schema:
        schema.add_column("note", StringType(), "said")
    with _load(catalog).update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "bucket")
    with _load(catalog).update_sort_order() as order:
        order.asc("id", IdentityTransform())
    with _load(catalog).transaction() as transaction:
        transaction.set_properties({"owner": "x", "write.metadata.previous-versions-max": "3"})
    with _load(catalog).transaction() as transaction:
        transaction.remove_properties("owner")


def _write(catalog: Catalog) -> None:
    for _ in range(3):
        _load(catalog).append(ROWS)
    first = _load(catalog).snapshots()[0].snapshot_id
    _load(catalog).manage_snapshots().create_tag(first, "first").commit()
    _load(catalog).manage_snapshots().create_branch(first, "dev").commit()
    _load(catalog).manage_snapshots().remove_tag("first").commit()
    _load(catalog).overwrite(ROWS)


def _expire(catalog: Catalog) -> None:
    second = _load(catalog).snapshots()[1].snapshot_id
    _load(catalog).maintenance.expire_snapshots().by_id(second).commit()


@pytest.fixture(params=[1, 2])
def catalogs(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[RestCatalog, SqlCatalog]]:
    sql = SqlCatalog("s", uri=f"sqlite:///{tmp_path}/s.db", warehouse=f"file://{tmp_path}/s")
    made = SqlCatalog("m", uri=f"sqlite:///{tmp_path}/m.db", warehouse=f"file://{tmp_path}/m")
    for catalog in (sql, made):
        catalog.create_namespace("n")
        version = {"format-version": str(request.param)}
        catalog.create_table("n.t", ROWS.schema, properties=version)
    server = WritableRestCatalog({("n", "t"): _load(made).metadata_location})
    with rest_catalog(server):
        yield RestCatalog("c", uri=server.uri), sql
    for catalog in (sql, made):
        catalog.engine.dispose()


def test_pyiceberg_gets_what_its_own_model_makes(
    catalogs: tuple[RestCatalog, SqlCatalog],
) -> None:
    rest, sql = catalogs
    for step in (_write, _evolve, _expire):
        for catalog in catalogs:
            step(catalog)
        ours, theirs = (_document(_load(catalog)) for catalog in (rest, sql))
        assert ours == theirs
    assert len(_load(rest).scan().to_arrow()) == len(ROWS)
    assert len(_load(rest).scan(snapshot_id=_branch(rest)).to_arrow()) == len(ROWS)


def _branch(catalog: Catalog) -> int:
    return _load(catalog).metadata.refs["dev"].snapshot_id


#: What differs with each run, and what PyIceberg does in its own way: it leaves gaps in the log,
#: takes the parents of survivors away, and does not update the single schema and spec of v1.
_OTHERS = {
    "location",
    "table-uuid",
    "last-updated-ms",
    "metadata-log",
    "snapshot-log",
    "snapshots",
    "current-snapshot-id",
    "schema",
    "partition-spec",
}


def _document(table: Table) -> dict[str, Any]:
    document = json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())
    numbers = {each["snapshot-id"]: n for n, each in enumerate(document["snapshots"])}
    named = {name: numbers[ref["snapshot-id"]] for name, ref in document.pop("refs").items()}
    kept = {name: value for name, value in document.items() if name not in _OTHERS and value}
    return {
        **kept,
        "refs": named,
        "current": numbers[document["current-snapshot-id"]],
        "sequences": [each.get("sequence-number", 0) for each in document["snapshots"]],
        "log": len(document["metadata-log"]),
    }
