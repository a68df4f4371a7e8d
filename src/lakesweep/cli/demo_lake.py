"""A small lake to try things on: Iceberg tables in a local folder, with a catalog in SQLite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

_CONFIG = """\
[lakes.demo]
locations = ["{warehouse}"]

[[lakes.demo.roots]]
type = "iceberg-catalog"
name = "demo"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "{warehouse}" }}
"""
_TABLES = ("customers", "events", "orders")
_APPENDS = 4
_ROWS = 1_000


@dataclass(frozen=True)
class DemoLake:
    """Three tables of a shop, each written in several commits."""

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
        for name in _TABLES:
            table = catalog.create_table(f"shop.{name}", schema=_rows(0).schema)
            for commit in range(_APPENDS):
                table.append(_rows(commit))

    def catalog(self) -> SqlCatalog:
        """The catalog, as PyIceberg opens it."""
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog(
            "demo",
            uri=f"sqlite:///{self.folder}/catalog.db",
            warehouse=str(self.warehouse),
        )

    def count_rows(self) -> dict[str, int]:
        """The rows of every table that the catalog lists, read back from its data files."""
        catalog = self.catalog()
        names = [".".join(name) for name in catalog.list_tables("shop")]
        return {name: catalog.load_table(name).scan().to_arrow().num_rows for name in names}


def _rows(commit: int) -> pa.Table:
    first = commit * _ROWS
    return pa.table(
        {
            "id": pa.array(range(first, first + _ROWS), pa.int64()),
            "note": pa.array([f"commit {commit}"] * _ROWS, pa.string()),
        }
    )
