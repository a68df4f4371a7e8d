"""Tables that PyIceberg wrote into a local folder, against what PyIceberg says of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakesweep.storage.address import identity
from tests.command import Lakesweep

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "place", StringType(), required=False),
)
BY_PLACE = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "place"))
CONFIG = """\
[lakes.local]
locations = ["{folder}/warehouse"]

[[lakes.local.roots]]
type = "iceberg-catalog"
name = "local"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""


def rows(first: int) -> pa.Table:
    places = ["here", "a/b", "50%", "x y", "ž"]
    return pa.table({"id": list(range(first, first + 5)), "place": places})


@pytest.fixture(params=["file://", ""])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> SqlCatalog:
    (tmp_path / "warehouse").mkdir()
    warehouse = f"{request.param}{tmp_path}/warehouse"
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)
    catalog.create_namespace("shop")
    for name, version in (("one", "1"), ("two", "2"), ("spare", "2")):
        table = catalog.create_table(
            f"shop.{name}", SCHEMA, partition_spec=BY_PLACE, properties={"format-version": version}
        )
        for first in (0, 5, 10):
            table.append(rows(first))
        table.delete("id < 3")
        table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    (tmp_path / "lakesweep.toml").write_text(CONFIG.format(folder=tmp_path))
    return catalog


@pytest.fixture
def lakesweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd, tmp_path / "lakesweep.toml")


def answer(table: Table) -> set[str]:
    """The identities of all that PyIceberg's own inspection names."""
    inspected = [
        *table.inspect.all_files()["file_path"].to_pylist(),
        *table.inspect.all_manifests()["path"].to_pylist(),
        *(snapshot.manifest_list for snapshot in table.snapshots()),
        *(entry.metadata_file for entry in table.metadata.metadata_log),
        table.metadata_location,
    ]
    return {identity(path) for path in inspected}


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_table_reaches_what_pyiceberg_says(
    name: str, catalog: SqlCatalog, lakesweep: Lakesweep
) -> None:
    done = lakesweep("iceberg", "files", f"local.shop.{name}", "--unique")
    assert {identity(line["path"]) for line in done.lines} == answer(
        catalog.load_table(f"shop.{name}")
    )


@pytest.mark.parametrize("how", [[], ["--base-location"]])
def test_a_purged_table_is_gone_and_the_others_can_be_read(
    how: list[str], catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    before = catalog.load_table("shop.spare").scan().to_arrow().num_rows
    done = lakesweep("iceberg", "purge", "local.shop.two", "--drop", "--yes", *how)
    assert done.code == 0, done.err
    assert done.document["absent"] == done.document["failed"] == 0
    left = [path for path in (tmp_path / "warehouse/shop/two").rglob("*") if path.is_file()]
    assert left == []
    assert catalog.load_table("shop.spare").scan().to_arrow().num_rows == before
    assert not catalog.table_exists("shop.two")
