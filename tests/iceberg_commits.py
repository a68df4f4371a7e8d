"""One Iceberg table behind each kind of catalog, for commits and for those who come in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from sqlalchemy import make_url

from lakesweep.catalog import Create, Namespace, Table
from lakesweep.catalog.table_pointer import RealmPointer
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.pointer_commit import PointerHandle
from lakesweep.iceberg.commits.table_handle import LoadedTable, MetadataChange, TableHandle
from lakesweep.iceberg.document.updates import (
    AddSnapshot,
    RemoveSnapshots,
    SetSnapshotRef,
    TableUpdate,
)
from lakesweep.iceberg.sql_catalog import SqlCatalogAdapter
from lakesweep.iceberg.table_identifier import IcebergTables
from lakesweep.storage.stores import Stores
from tests.database_servers import DatabaseServer
from tests.hive_metastore import HiveMetastore, hive_metastore
from tests.realms import open_shop
from tests.rest_catalog import WritableRestCatalog, rest_catalog
from tests.servers import S3Server
from tests.unit.iceberg.test_metastores import client

SNAPSHOTS = 4
_numbers = count()


@dataclass(frozen=True)
class Template:
    """A table of four snapshots, written by PyIceberg; everything but its pointer."""

    location: str
    metadata: str

    @classmethod
    def write(cls, folder: Path) -> Template:
        catalog = SqlCatalog("w", uri=f"sqlite:///{folder}/w.db", warehouse=f"file://{folder}")
        catalog.create_namespace("n")
        rows = pa.table({"id": [1, 2]})
        table = catalog.create_table("n.t", schema=rows.schema)
        for _ in range(SNAPSHOTS):
            table.append(rows)
        catalog.engine.dispose()
        return cls(table.location(), table.metadata_location)


def open_ref(properties: Mapping[str, str], ref: str) -> TableHandle:
    catalogs = {ref.partition(".")[0]: properties}
    return open_table(IcebergTables(Stores(), catalogs), ref)


@contextmanager
def sqlite(template: Template, folder: Path) -> Iterator[TableHandle]:
    with sql(template, f"sqlite:///{folder}/{next(_numbers)}.db") as handle:
        yield handle


@contextmanager
def sql(template: Template, uri: str) -> Iterator[TableHandle]:
    catalog = SqlCatalog("c", uri=uri, warehouse="file:///none")
    catalog.create_namespace("n")
    catalog.register_table("n.t", template.metadata)
    catalog.engine.dispose()
    tables = IcebergTables(Stores(), {"c": {"type": "sql", "uri": uri}})
    yield open_table(tables, "c.n.t")
    opened = tables.open("c")
    assert isinstance(opened, SqlCatalogAdapter)
    opened.catalog.engine.dispose()


def psycopg_url(server: DatabaseServer, **changes: Any) -> str:
    """A new database, as SQLAlchemy names it."""
    url = make_url(server.new_database()).set(drivername="postgresql+psycopg", **changes)
    return url.render_as_string(hide_password=False)


@contextmanager
def rest(template: Template, server: WritableRestCatalog | None = None) -> Iterator[TableHandle]:
    server = server or WritableRestCatalog()
    server.tables["n", "t"] = template.metadata
    with rest_catalog(server):
        yield open_ref({"type": "rest", "uri": server.uri}, "c.n.t")


@contextmanager
def hive(template: Template, server: HiveMetastore | None = None) -> Iterator[TableHandle]:
    server = server or HiveMetastore()
    parameters = {
        "table_type": "ICEBERG",
        "metadata_location": template.metadata,
        "snapshot-count": "4",
        "x-owner": "kept",
    }
    server.tables["n", "t"] = (parameters, template.location)
    with hive_metastore(server):
        yield open_ref({"type": "hive", "uri": server.uri}, "c.n.t")


def glue_properties(server: S3Server) -> dict[str, str]:
    return {
        "type": "glue",
        "glue.endpoint": server.endpoint,
        "glue.region": server.region,
        "glue.access-key-id": server.access_key_id,
        "glue.secret-access-key": server.secret_access_key,
    }


@contextmanager
def glue(template: Template, server: S3Server) -> Iterator[TableHandle]:
    database = f"n{uuid4().hex}"
    glue = client("glue", server)
    glue.create_database(DatabaseInput={"Name": database})
    parameters = {"table_type": "ICEBERG", "metadata_location": template.metadata, "x": "kept"}
    columns = [{"Name": "id", "Type": "bigint", "Comment": "kept"}]
    storage = {"Location": template.location, "Columns": columns}
    table = {
        "Name": "t",
        "Parameters": parameters,
        "StorageDescriptor": storage,
        "Description": "kept",
        "Owner": "kept",
    }
    glue.create_table(DatabaseName=database, TableInput=table)
    yield open_ref(glue_properties(server), f"c.{database}.t")


@contextmanager
def dynamodb(template: Template) -> Iterator[TableHandle]:
    """PyIceberg's client takes its endpoint from the environment only."""
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    properties = {"type": "dynamodb", "table-name": f"catalog-{uuid4()}"}
    catalog = DynamoDbCatalog("c", **properties)
    catalog.create_namespace("n")
    item = {
        "identifier": {"S": "n.t"},
        "namespace": {"S": "n"},
        "v": {"S": "1"},
        "created_at": {"N": "1"},
        "updated_at": {"N": "1"},
        "p.table_type": {"S": "ICEBERG"},
        "p.metadata_location": {"S": template.metadata},
        "p.x": {"S": "kept"},
    }
    catalog.dynamodb.put_item(TableName=properties["table-name"], Item=item)
    yield open_ref(properties, "c.n.t")


@contextmanager
def realm(template: Template) -> Iterator[TableHandle]:
    shop = open_shop()
    table = Table(metadata_location=template.metadata, properties={"kept": "yes"})
    shop.apply([Create("n", Namespace()), Create("n.t", table)])
    yield PointerHandle(RealmPointer(shop, "n.t", Stores()))


@contextmanager
def folder(template: Template, place: Path) -> Iterator[TableHandle]:
    metadata = place / f"hadoop{next(_numbers)}" / "metadata"
    metadata.mkdir(parents=True)
    document = json.loads(Path(template.metadata.removeprefix("file://")).read_bytes())
    document["location"] = f"file://{metadata.parent}"
    (metadata / "v4.metadata.json").write_text(json.dumps(document))
    (metadata / "version-hint.text").write_text("4")
    yield open_table(IcebergTables(Stores(), {}), f"file://{metadata.parent}")


def expire(base: LoadedTable, keep: int = 1) -> MetadataChange | None:
    """Remove all snapshots but the newest ones and those of refs."""
    heads = base.document.snapshots()
    kept = {ref.snapshot_id for ref in base.document.refs().values()}
    gone = tuple(head.snapshot_id for head in heads[:-keep] if head.snapshot_id not in kept)
    return MetadataChange.of(base.document, [RemoveSnapshots(snapshot_ids=gone)]) if gone else None


def ids(table: LoadedTable) -> list[int]:
    return [head.snapshot_id for head in table.document.snapshots()]


def write(handle: TableHandle, *updates: TableUpdate) -> LoadedTable:
    """Another writer commits something."""
    outcome = handle.commit(base := handle.load(), MetadataChange.of(base.document, updates))
    assert outcome.table is not None, outcome.reason
    return outcome.table


def tag(handle: TableHandle, snapshot_id: int, name: str = "audit") -> LoadedTable:
    return write(handle, SetSnapshotRef(ref_name=name, type="tag", snapshot_id=snapshot_id))


def roll_back(handle: TableHandle, snapshot_id: int) -> LoadedTable:
    return write(handle, SetSnapshotRef(ref_name="main", type="branch", snapshot_id=snapshot_id))


def append(handle: TableHandle) -> LoadedTable:
    """A snapshot with the files of the current one."""
    base = handle.load()
    last: dict[str, Any] = base.document.get("snapshots", list[dict[str, Any]])[-1]
    number = 10_000 + next(_numbers)
    last |= {
        "parent-snapshot-id": last["snapshot-id"],
        "snapshot-id": number,
        "sequence-number": base.document.get("last-sequence-number", int) + 1,
    }
    return write(
        handle,
        AddSnapshot(snapshot=msgspec.Raw(msgspec.json.encode(last))),
        SetSnapshotRef(ref_name="main", type="branch", snapshot_id=number),
    )


def row_count(location: str) -> int:
    """How many rows PyIceberg reads from the table of a metadata file."""
    return len(StaticTable.from_metadata(location).scan().to_arrow())


def metadata_files(table: LoadedTable) -> set[str]:
    folder = Path(table.location.removeprefix("file://")).parent
    return {str(path) for path in folder.glob("*.metadata.json")}
