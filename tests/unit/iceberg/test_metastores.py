"""Catalogs in Glue, Hive and DynamoDB, on servers that speak their protocols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import boto3
import pytest

from lakesweep.errors import ConfigError, IncompleteError, LakesweepError, NotFoundError
from lakesweep.iceberg.catalogs import IcebergCatalog, open_catalog
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, UnresolvedTable
from lakesweep.sweep.roots.iceberg import CatalogRoots
from lakesweep.sweep.roots.root import EmptyRootSource, RootKind, RootProblem, RootRow
from tests.hive_metastore import HiveMetastore, hive_metastore
from tests.servers import S3Server

PATH = "s3://lake/t/metadata/00001-x.metadata.json"
ICEBERG = {"table_type": "ICEBERG", "metadata_location": PATH}
POINTLESS = {"table_type": "iceberg"}


class Glue:
    """A database of Glue."""

    def __init__(self, server: S3Server) -> None:
        self._client = client("glue", server)
        self.database = f"d{uuid4().hex}"
        self._client.create_database(DatabaseInput={"Name": self.database})
        self.properties = {
            "type": "glue",
            "glue.endpoint": server.endpoint,
            "glue.region": server.region,
            "glue.access-key-id": server.access_key_id,
            "glue.secret-access-key": server.secret_access_key,
        }

    def add(self, name: str, parameters: Mapping[str, str], location: str) -> None:
        storage = {"Location": location, "SerdeInfo": {"Parameters": {"path": f"{location}-real"}}}
        table = {"Name": name, "Parameters": dict(parameters), "StorageDescriptor": storage}
        self._client.create_table(DatabaseName=self.database, TableInput=table)

    def drop(self, name: str) -> None:
        self._client.delete_table(DatabaseName=self.database, Name=name)


class Hive:
    """A database of a Hive metastore."""

    database = "d"

    def __init__(self, metastore: HiveMetastore) -> None:
        self._metastore = metastore
        self.properties = {"type": "hive", "uri": metastore.uri}

    def add(self, name: str, parameters: Mapping[str, str], location: str) -> None:
        self._metastore.tables[self.database, name] = (parameters, location)

    def drop(self, name: str) -> None:
        del self._metastore.tables[self.database, name]


def client(service: str, server: S3Server) -> Any:
    return boto3.client(
        service,
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
    )


@pytest.fixture(params=["glue", "hive"])
def metastore(request: pytest.FixtureRequest, moto: S3Server) -> Iterator[Glue | Hive]:
    if request.param == "glue":
        yield Glue(moto)
        return
    with hive_metastore(HiveMetastore()) as server:
        yield Hive(server)


def opened(metastore: Glue | Hive) -> IcebergCatalog:
    return open_catalog("store", metastore.properties)


def survey(metastore: Glue | Hive) -> dict[str, CatalogEntry | UnresolvedTable | ForeignTable]:
    prefix = f"store.{metastore.database}."
    found = {each.full_name: each for each in opened(metastore).survey()}
    return {n.removeprefix(prefix): each for n, each in found.items() if n.startswith(prefix)}


def test_tables_are_listed_without_reading_their_metadata(metastore: Glue | Hive) -> None:
    metastore.add("t", ICEBERG, "s3://lake/t")
    found = survey(metastore)["t"]
    assert isinstance(found, CatalogEntry)
    assert (found.metadata_path, found.folders[0]) == (PATH, "s3://lake/t")


def test_tables_of_other_formats_are_told_with_their_folders(metastore: Glue | Hive) -> None:
    metastore.add("parquet", {}, "s3://lake/parquet")
    metastore.add("t", ICEBERG, "s3://lake/t")
    found = survey(metastore)["parquet"]
    assert isinstance(found, ForeignTable)
    assert found.folders[0] == "s3://lake/parquet"
    names = {entry.name[1] for entry in opened(metastore).entries() if entry.metadata_path == PATH}
    assert "parquet" not in names


def test_a_table_without_metadata_is_unknown(metastore: Glue | Hive) -> None:
    metastore.add("t", POINTLESS, "s3://lake/t")
    assert isinstance(survey(metastore)["t"], UnresolvedTable)
    with pytest.raises(IncompleteError, match="names no metadata file"):
        opened(metastore).find((metastore.database, "t"))


def test_a_dropped_table_is_gone(metastore: Glue | Hive) -> None:
    metastore.add("t", ICEBERG, "s3://lake/t")
    metastore.add("parquet", {}, "s3://lake/p")
    catalog = opened(metastore)
    assert catalog.look((metastore.database, "t")) is not None
    metastore.drop("t")
    assert catalog.look((metastore.database, "t")) is None
    with pytest.raises(NotFoundError):
        catalog.find((metastore.database, "parquet"))


def test_tables_of_other_formats_are_foreign_roots(metastore: Glue | Hive) -> None:
    metastore.add("t", ICEBERG, "s3://lake/t")
    metastore.add("parquet", {}, "s3://lake/parquet")
    metastore.add("lost", POINTLESS, "s3://lake/lost")
    prefix = f"store.{metastore.database}."
    roots = {
        str(root.name).removeprefix(prefix): root
        for root in CatalogRoots("store", metastore.properties).collect()
        if not isinstance(root, EmptyRootSource)
    }
    assert isinstance(roots["t"], RootRow)
    assert roots["parquet"].kind is RootKind.FOREIGN
    assert "s3://lake/parquet" in roots["parquet"].locations
    assert isinstance(roots["lost"], RootProblem)


def test_a_metastore_that_is_gone_is_not_an_empty_one() -> None:
    with hive_metastore(HiveMetastore({("d", "t"): (ICEBERG, "s3://lake/t")})) as server:
        catalog = open_catalog("store", {"type": "hive", "uri": server.uri})
    with pytest.raises(LakesweepError):
        list(catalog.survey())


@pytest.fixture
def dynamodb(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", moto.region)
    return client("dynamodb", moto)


def test_a_catalog_in_dynamodb_lists_its_tables(dynamodb: Any) -> None:
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    properties = {"type": "dynamodb", "table-name": f"catalog-{uuid4()}"}
    DynamoDbCatalog("store", **properties).create_namespace("d")
    dynamodb.put_item(
        TableName=properties["table-name"],
        Item={
            "identifier": {"S": "d.t"},
            "namespace": {"S": "d"},
            "v": {"S": "1"},
            "created_at": {"N": "1"},
            "updated_at": {"N": "1"},
            "p.table_type": {"S": "ICEBERG"},
            "p.metadata_location": {"S": PATH},
        },
    )
    catalog = open_catalog("store", properties)
    assert [(entry.full_name, entry.metadata_path) for entry in catalog.entries()] == [
        ("store.d.t", PATH)
    ]
    assert catalog.look(("d", "gone")) is None


def test_a_catalog_in_dynamodb_is_not_made_by_looking_for_it(dynamodb: Any) -> None:
    with pytest.raises(ConfigError, match="no DynamoDB table nowhere"):
        open_catalog("store", {"type": "dynamodb", "table-name": "nowhere"})
    assert "nowhere" not in dynamodb.list_tables()["TableNames"]
