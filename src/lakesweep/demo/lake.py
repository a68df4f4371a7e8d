"""The demo lake: Iceberg tables in a local folder, with a catalog in SQLite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_CONFIG = """\
[store]
url = "sqlite:///.lakesweep/store.db"      # where Lakesweep keeps its records

[lakes.demo]
locations = ["{warehouse}"]
grace = "7d"                               # younger files are never deleted

[[lakes.demo.roots]]
type = "iceberg-catalog"                   # everything that keeps files alive
name = "demo"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "{warehouse}" }}

[lakes.demo.limits]                        # of sweeps that run by themselves
apply = "after-approval"                   # every plan waits for a person
"""
_ROWS = 1_000
_REGIONS = ("eu", "us")


@dataclass(frozen=True)
class DemoLake:
    """The tables of a shop, and what some years of use would make of them."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        """Where the tables keep their files."""
        return self.folder / "warehouse"

    @property
    def config(self) -> Path:
        """The configuration that names the lake and its catalog."""
        return self.folder / "lakesweep.toml"

    def create(self) -> None:
        """Write the tables and the configuration."""
        self.warehouse.mkdir(parents=True)
        self.config.write_text(_CONFIG.format(folder=self.folder, warehouse=self.warehouse))
        catalog = self.catalog()
        catalog.create_namespace("shop")
        _make_orders(catalog)
        _make_events(catalog)
        _make_clicks(catalog, f"{self.warehouse}/shop/clicks")
        _drop_customers(catalog)

    def catalog(self) -> SqlCatalog:
        """The catalog, as PyIceberg opens it."""
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog(
            "demo",
            uri=f"sqlite:///{self.folder}/catalog.db",
            warehouse=str(self.warehouse),
        )

    def tables(self) -> dict[str, Table]:
        """Every table that the catalog lists, as it is now."""
        catalog = self.catalog()
        names = sorted(".".join(name) for name in catalog.list_tables("shop"))
        return {name: catalog.load_table(name) for name in names}

    def files(self) -> set[str]:
        """Every file of the warehouse, apart from what Lakesweep set aside."""
        paths = (path for path in self.warehouse.rglob("*") if path.is_file())
        return {str(path) for path in paths if "_lakesweep" not in path.parts}


def rows(batch: int) -> pa.Table:
    """Some rows of any table; those of another batch have other ids."""
    ids = range(batch * _ROWS, (batch + 1) * _ROWS)
    regions = [_REGIONS[number % len(_REGIONS)] for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "region": regions})


def _make_orders(catalog: SqlCatalog) -> None:
    """Partitioned, with deletes of both kinds, a tag, and a branch that has a commit of its own."""
    from lakesweep.demo.position_deletes import delete_rows

    table = catalog.create_table("shop.orders", _schema(), partition_spec=_by_region())
    table.append(rows(0))
    table.manage_snapshots().create_tag(_head(table), "year-end").commit()
    table.append(rows(1))
    table.delete("id < 100")  # rewrites files
    delete_rows(table, [0, 1, 2])  # adds a file of positions
    table.manage_snapshots().create_branch(_head(table), "audit").commit()
    table.append(rows(2), branch="audit")


def _make_events(catalog: SqlCatalog) -> None:
    """A short log of metadata, and old snapshots that were expired: both leave files behind."""
    short = {"write.metadata.previous-versions-max": "2"}
    table = catalog.create_table("shop.events", _schema(), properties=short)
    table.append(rows(0))
    for batch in (1, 2):
        table.overwrite(rows(batch))
    expired = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != _head(table)]
    table.maintenance.expire_snapshots().by_ids(expired).commit()


def _make_clicks(catalog: SqlCatalog, folder: str) -> None:
    """Two tables in one folder."""
    for name in ("shop.clicks", "shop.visits"):
        catalog.create_table(name, _schema(), location=folder).append(rows(0))


def _drop_customers(catalog: SqlCatalog) -> None:
    """A table that the catalog forgot, with its files left behind."""
    catalog.create_table("shop.customers", _schema()).append(rows(0))
    catalog.drop_table("shop.customers")


def _schema() -> Schema:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    return Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "region", StringType(), required=False),
    )


def _by_region() -> PartitionSpec:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def _head(table: Table) -> int:
    head = table.current_snapshot()
    assert head is not None
    return head.snapshot_id
