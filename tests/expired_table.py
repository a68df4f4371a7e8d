"""A table of PyIceberg in a folder, behind a SQL or a REST catalog, that is expired by an app."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.file_names import write_metadata_name
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import TableUpdate
from lakesweep.operations.upkeep.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
)
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.rest_catalog import WritableRestCatalog, rest_catalog

REF = "shop.db.orders"
_ROWS = pa.table({"id": [1, 2, 3]})
#: Everything but the heads of refs is old.
ALL_OLD = RetentionArguments(older_than_ms=2**52)


def agree(preview: IcebergExpiryPreview) -> None:
    """Agree to everything."""


@dataclass
class ExpiredTable:
    """The table `orders`: three appends, an overwrite, an append."""

    folder: Path
    catalog: SqlCatalog
    properties: Mapping[str, str] = field(default_factory=dict)
    server: WritableRestCatalog | None = None

    @classmethod
    def write(cls, folder: Path) -> ExpiredTable:
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        catalog = SqlCatalog("shop", uri=uri, warehouse=warehouse)
        catalog.create_namespace("db")
        table = catalog.create_table("db.orders", schema=_ROWS.schema)
        for _ in range(3):
            table.append(_ROWS)
        table.overwrite(_ROWS)
        table.append(_ROWS)
        return cls(folder, catalog, {"type": "sql", "uri": uri})

    @property
    def table(self) -> Table:
        """The table as its catalog has it now."""
        if self.server is None:
            return self.catalog.load_table("db.orders")
        return StaticTable.from_metadata(self.server.tables["db", "orders"])

    def app(self, store: str = "store.db") -> App:
        """A process with a store of its own name."""
        roots = [{"type": "iceberg-catalog", "name": "shop", "properties": dict(self.properties)}]
        lake = {"locations": [f"{self.folder}/warehouse"], "roots": roots}
        url = f"sqlite:///{self.folder}/{store}"
        config = Config.model_validate({"store": {"url": url}, "lakes": {"l": lake}})
        return App(config, folder=self.folder)

    def expire(
        self,
        confirm: Callable[[IcebergExpiryPreview], None] = agree,
        *,
        store: str = "store.db",
        arguments: RetentionArguments = ALL_OLD,
        **others: Any,
    ) -> IcebergExpiryResult:
        request = ExpireTablesRequest(refs=(REF,), terms=ExpiryTerms(arguments), **others)
        return expire_table(self.app(store), REF, request, confirm)

    def snapshots(self) -> list[int]:
        return [each.snapshot_id for each in self.table.snapshots()]

    def rows(self) -> dict[str, int]:
        """How many rows each ref reads, by PyIceberg."""
        table = self.table
        return {
            name: table.scan(snapshot_id=ref.snapshot_id).to_arrow().num_rows
            for name, ref in table.metadata.refs.items()
        }

    def files(self) -> set[str]:
        """All data files, manifests and lists; not what a killed process was about to rename."""
        found = (self.folder / "warehouse").rglob("[!.]*")
        tables = (path for path in found if "_lakesweep" not in path.parts)
        return {str(path) for path in tables if path.suffix in {".avro", ".parquet"}}

    def journals(self) -> list[Path]:
        return [*self.folder.rglob("_lakesweep/*/*.json")]

    def change(self, *updates: TableUpdate) -> None:
        """What another client of the REST catalog commits."""
        assert self.server is not None
        path = self.server.tables["db", "orders"]
        data = Path(path.removeprefix("file://")).read_bytes()
        now_ms = int(time.time() * 1000)
        document = RawDocument.parse(path, data)
        after = apply_table_updates(document, updates, now_ms=now_ms, location=path)
        new = write_metadata_name(after, path, str(uuid4()))
        Path(new.removeprefix("file://")).write_bytes(after.encode())
        self.server.tables["db", "orders"] = new


@contextmanager
def behind_rest(folder: Path) -> Iterator[ExpiredTable]:
    """The table behind a REST catalog."""
    written = ExpiredTable.write(folder)
    server = WritableRestCatalog()
    server.tables["db", "orders"] = written.table.metadata_location
    with rest_catalog(server):
        written.server = server
        written.properties = {"type": "rest", "uri": server.uri}
        yield written
