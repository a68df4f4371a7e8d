"""Marking over real catalogs, servers and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakesweep.storage.address import identity
from lakesweep.storage.stores import Stores
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.root import RootSource
from tests.e2e.test_pyiceberg_tables import BY_PLACE, SCHEMA, answer, rows
from tests.iceberg_tables import Bucket, Table
from tests.lake import EngineLake
from tests.marked import live, live_of, root, spec_for, states
from tests.rest_catalog import RestCatalogServer, rest_catalog
from tests.servers import S3Server


def test_the_engines_lake_on_a_server_through_its_own_catalog(
    bucket: S3Server, engine: EngineLake
) -> None:
    stores = Stores({"s3://lake": bucket.options()})
    unlisted = [t.metadata_path for t in engine.tables() if not t.name.startswith("lake.")]
    sources: list[RootSource] = [
        CatalogRoots("lake", {"type": "sql", "uri": engine.catalog_uri}),
        MetadataRoots(stores, unlisted),
    ]
    marks = mark(spec_for(stores), sources)
    assert set(states(marks).values()) == {RootState.COMPLETE}
    assert len(marks.roots) == len(engine.tables())
    stored = {f"s3://lake/{key}" for key in engine.objects}
    orphans = stored - {path for _, path in live(stores, marks)}
    assert orphans == set(engine.orphans()["all-unreferenced"])
    again = mark(spec_for(stores, marks), sources)
    assert again.figures.reused == again.figures.manifests > 0
    assert live(stores, again) == live(stores, marks)


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_tables_that_pyiceberg_wrote(scheme: str, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    (tmp_path / "warehouse").mkdir()
    catalog = SqlCatalog("local", uri=uri, warehouse=f"{scheme}{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    for name, version in (("one", "1"), ("two", "2")):
        properties = {"format-version": version}
        table = catalog.create_table(
            f"shop.{name}", SCHEMA, partition_spec=BY_PLACE, properties=properties
        )
        for first in (0, 5):
            table.append(rows(first))
        table.delete("id < 3")
    stores = Stores()
    marks = mark(spec_for(stores), [CatalogRoots("local", {"type": "sql", "uri": uri})])
    for name in ("one", "two"):
        found = live_of(stores, marks, root(marks, f"local.shop.{name}"))
        expected = answer(catalog.load_table(f"shop.{name}"))
        assert {identity(path) for _, path in found} == expected
    catalog.close()


def test_a_table_is_read_with_the_credentials_that_its_catalog_hands_out(
    rclone: S3Server,
) -> None:
    made = Bucket()
    table = Table(made, "t")
    table.snapshot(table.manifest("m0.avro", table.data("a")))
    pointer = table.commit()
    rclone.make_bucket("lake")
    for key in made.store.list("").entries["key"].to_pylist():
        rclone.boto3().put_object(Bucket="lake", Key=key, Body=made.store.read(key))
    handed = {
        "s3.endpoint": rclone.endpoint,
        "s3.region": rclone.region,
        "s3.access-key-id": rclone.access_key_id,
        "s3.secret-access-key": rclone.secret_access_key,
    }
    found = {}
    for secret in (rclone.secret_access_key, "another"):
        server = RestCatalogServer({("a", "t"): pointer})
        server.config = {**handed, "s3.secret-access-key": secret}
        with rest_catalog(server):
            roots = CatalogRoots("rest", {"type": "rest", "uri": server.uri})
            marks = mark(spec_for(Stores()), [roots])
        found[secret] = root(marks, "rest.a.t")
    assert found[rclone.secret_access_key].state is RootState.COMPLETE
    assert found["another"].state is RootState.INCOMPLETE
    assert "denied" in found["another"].reasons[0]
