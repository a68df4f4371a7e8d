"""A small lake in a local folder: a table that PyIceberg wrote, and files that nothing needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

_LONG_AGO = 1_700_000_000
_CONFIG = """\
[lakes.prod]
locations = ["{folder}/warehouse"]

[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "lake"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""


@dataclass(frozen=True)
class SmallLake:
    """The lake `prod`. All files are older than any grace."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, orphans: int) -> SmallLake:
        """A table of two commits, and so many orphans in its folder."""
        from pyiceberg.catalog.sql import SqlCatalog

        folder.mkdir()
        lake = cls(folder)
        lake.config.write_text(_CONFIG.format(folder=folder))
        uri = f"sqlite:///{folder}/catalog.db"
        catalog = SqlCatalog("lake", uri=uri, warehouse=f"file://{folder}/warehouse")
        catalog.create_namespace("shop")
        rows: Any = pa.table({"id": pa.array([1, 2, 3])})
        table = catalog.create_table("shop.orders", rows.schema)
        for _ in range(2):
            table.append(rows)
        lake.add_orphans(orphans)
        return lake

    def add_orphans(self, count: int) -> None:
        """Write files that nothing references, as old as all others."""
        for number in range(count):
            (self.data / f"orphan-{number:05}.parquet").write_bytes(b"orphan")
        for path in self.warehouse.rglob("*"):
            os.utime(path, (_LONG_AGO, _LONG_AGO))

    @property
    def config(self) -> Path:
        return self.folder / "lakesweep.toml"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def data(self) -> Path:
        return self.warehouse / "shop" / "orders" / "data"

    def files(self) -> set[str]:
        """All that is stored, apart from what was set aside."""
        found = (path for path in self.warehouse.rglob("*") if path.is_file())
        return {str(path) for path in found if "_lakesweep" not in path.parts}

    def orphans(self) -> set[str]:
        return {str(path) for path in self.data.glob("orphan-*")}
