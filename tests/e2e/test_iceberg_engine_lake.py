"""What tables and views written by the Java engine reach, against the engine's own answers."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator

import pytest

from lakesweep.iceberg.catalogs import open_catalog
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import load_metadata
from lakesweep.marks.unreadable import Strict
from lakesweep.storage.address import identity
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores
from tests.lake import BUCKET, EngineLake, EngineTable, table_names
from tests.servers import S3Server, rclone_server


def on_moto(request: pytest.FixtureRequest) -> Stores:
    server: S3Server = request.getfixturevalue("bucket")
    return Stores({"s3://lake": server.options()})


def on_rclone(request: pytest.FixtureRequest) -> Stores:
    server: S3Server = request.getfixturevalue("engine_rclone")
    return Stores({"s3://lake": server.options()})


@pytest.fixture(scope="module")
def engine_rclone(
    engine: EngineLake, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("rclone") / "buckets"
    shutil.copytree(engine.bucket, folder / BUCKET)
    with rclone_server(folder) as server:
        yield server


def in_memory(request: pytest.FixtureRequest) -> Stores:
    engine: EngineLake = request.getfixturevalue("engine")
    store = Stores().open("memory://engine-lake/")
    if not store.list("", one_level=True).folders:
        engine.fill(store)
    return Stores(replace={"s3://lake": store})


def in_a_folder(request: pytest.FixtureRequest) -> Stores:
    engine: EngineLake = request.getfixturevalue("engine")
    return local(engine)


def local(engine: EngineLake) -> Stores:
    return Stores(replace={"s3://lake": LocalStore(str(engine.bucket), "s3://lake/")})


PLACES = {"moto": on_moto, "rclone": on_rclone, "memory": in_memory, "folder": in_a_folder}


@pytest.fixture(params=PLACES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return PLACES[request.param](request)


def reach(stores: Stores, table: EngineTable) -> list[tuple[str, str]]:
    metadata = load_metadata(stores, table.metadata_path)
    batches = unique_files(reached_files(stores, metadata, Strict()))
    return [(row["kind"], identity(row["path"])) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("name", table_names())
def test_a_table_reaches_exactly_what_the_engine_says(
    name: str, engine: EngineLake, stores: Stores
) -> None:
    table = engine.table(name)
    found = Counter(reach(stores, table))
    assert set(found) == table.referenced()
    assert set(found.values()) == {1}


def test_the_lake_holds_every_kind_of_file(engine: EngineLake) -> None:
    kinds = {kind for table in engine.tables() for kind, _ in table.referenced()}
    assert kinds == {kind.value for kind in IcebergKind}


def test_what_no_table_reaches_is_what_the_engine_calls_unreferenced(engine: EngineLake) -> None:
    stores = local(engine)
    reached = {path for table in engine.tables() for _, path in reach(stores, table)}
    stored = {f"s3://{BUCKET}/{key}" for key in engine.objects}
    assert stored - reached == set(engine.orphans()["all-unreferenced"])


def test_the_engines_catalog_is_read_with_all_its_tables_and_views(engine: EngineLake) -> None:
    catalog = open_catalog("lake", {"type": "sql", "uri": engine.catalog_uri})
    found = {entry.full_name: (entry.metadata_path, entry.is_view) for entry in catalog.entries()}
    assert found == {
        table.name: (table.metadata_path, table.is_view)
        for table in engine.tables()
        if table.name.startswith("lake.")
    }
