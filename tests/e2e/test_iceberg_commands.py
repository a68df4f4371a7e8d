"""`lakesweep iceberg` from the command line, on the engine's lake behind a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.storage.address import identity
from tests.command import Lakesweep
from tests.e2e.conftest import stored
from tests.lake import BUCKET, EngineLake
from tests.rest_catalog import RestCatalogServer, rest_catalog
from tests.servers import S3Server

CONFIG = """\
[storage."s3://lake"]
endpoint = "{endpoint}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"

[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "lake"
properties = {{ type = "sql", uri = "{uri}" }}

[lakes.prod]
locations = ["s3://lake/warehouse"]
"""
TWICE = """
[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "rest"
properties = {{ type = "rest", uri = "{uri}" }}
"""


@pytest.fixture
def lakesweep(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Lakesweep:
    config = tmp_path / "lakesweep.toml"
    config.write_text(
        CONFIG.format(
            endpoint=bucket.endpoint,
            key=bucket.access_key_id,
            secret=bucket.secret_access_key,
            uri=engine.copy_catalog(tmp_path),
        )
    )
    return Lakesweep(capfd, config)


def referenced(engine: EngineLake, name: str) -> set[tuple[str, str]]:
    return engine.table(name).referenced()


def test_files_of_a_table_come_as_json_lines(lakesweep: Lakesweep, engine: EngineLake) -> None:
    done = lakesweep("iceberg", "files", "lake.shop.events", "--unique")
    assert done.code == 0
    assert list(done.lines[0]) == ["path", "kind", "size_bytes", "modified", "etag"]
    found = {(line["kind"], identity(line["path"])) for line in done.lines}
    assert found == referenced(engine, "lake.shop.events")
    assert len(done.lines) == len(found)


def test_a_view_is_found_by_name(lakesweep: Lakesweep, engine: EngineLake) -> None:
    done = lakesweep("iceberg", "files", "lake.shop.big_orders")
    found = {(line["kind"], line["path"]) for line in done.lines}
    assert found == referenced(engine, "lake.shop.big_orders")


def test_a_data_file_in_several_manifests_comes_several_times(lakesweep: Lakesweep) -> None:
    every = lakesweep("iceberg", "files", "lake.shop.rewritten").lines
    unique = lakesweep("iceberg", "files", "lake.shop.rewritten", "--unique").lines
    assert len(every) > len(unique)
    assert {line["path"] for line in every} == {line["path"] for line in unique}


def test_several_tables_at_once_are_unique_together(
    lakesweep: Lakesweep, engine: EngineLake
) -> None:
    names = ["lake.shop.plain_v1", "lake.shop.registered"]
    done = lakesweep("iceberg", "files", *names, "--unique")
    expected = {path for name in names for _, path in referenced(engine, name)}
    paths = [line["path"] for line in done.lines]
    assert sorted(paths) == sorted(expected)


@pytest.mark.parametrize("address", ["metadata/v3.metadata.json", "", "/"])
def test_a_table_without_a_catalog_is_found_by_address(
    address: str, lakesweep: Lakesweep, engine: EngineLake
) -> None:
    ref = "s3://lake/hadoop/old/counts" + (f"/{address}" if address.strip("/") else address)
    done = lakesweep("iceberg", "files", ref)
    found = {(line["kind"], line["path"]) for line in done.lines}
    assert found == referenced(engine, "hdp.old.counts")


@pytest.mark.parametrize(
    ("ref", "code", "message"),
    [
        ("lake.shop.nowhere", 6, "has no table or view shop.nowhere"),
        ("nothing.shop.orders", 2, "catalog nothing cannot be opened"),
        ("orders", 2, "neither catalog.namespace.table nor an address"),
        ("s3://lake/warehouse/shop/t1/metadata/v9.metadata.json", 6, "v9.metadata.json"),
        ("s3://lake/warehouse/shop/t1", 6, "neither a metadata file nor the folder"),
        ("hdfs://lake/x.metadata.json", 4, "not a kind of store"),
    ],
)
def test_what_is_not_there_is_said_with_a_hint(
    ref: str, code: int, message: str, lakesweep: Lakesweep
) -> None:
    done = lakesweep("iceberg", "files", ref)
    assert done.code == code == done.error["exit_code"]
    assert message in done.error["message"]
    assert done.error["hint"]
    assert done.out == ""


def test_strict_names_the_unreadable_file_and_tolerant_goes_on(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    name = "lake.shop.branched"
    manifest = min(path for kind, path in referenced(engine, name) if kind == "manifest")
    bucket.boto3().delete_object(Bucket=BUCKET, Key=manifest.removeprefix("s3://lake/"))
    strict = lakesweep("iceberg", "files", name)
    assert strict.code == 4
    assert manifest in strict.error["message"]
    assert "missing" in strict.error["message"]
    tolerant = lakesweep("iceberg", "files", name, "--tolerant")
    assert tolerant.code == 4
    assert len(tolerant.lines) > 5
    assert manifest in tolerant.err


def test_a_dry_run_counts_and_deletes_nothing(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    before = stored(bucket)
    done = lakesweep("iceberg", "purge", "lake.shop.orders", "--dry-run")
    assert done.code == 0
    assert done.document["found"] == len(engine.table("lake.shop.orders").purged())
    assert done.document["deleted"] == 0
    assert stored(bucket) == before


def test_without_a_terminal_and_without_yes_nothing_is_deleted(
    lakesweep: Lakesweep, bucket: S3Server
) -> None:
    before = stored(bucket)
    done = lakesweep("iceberg", "purge", "lake.shop.orders")
    assert done.code == 3
    assert "--yes" in done.error["hint"]
    assert stored(bucket) == before


def test_a_purge_names_the_table_and_reports_what_went(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    table = engine.table("lake.shop.orders")
    before = stored(bucket)
    done = lakesweep("iceberg", "purge", "lake.shop.orders", "--yes")
    assert done.code == 0
    assert "lake.shop.orders" in done.err
    assert table.answer["location"] in done.err
    assert before - stored(bucket) == table.purged()
    assert done.document["deleted"] == done.document["found"] == len(table.purged())
    run = lakesweep("runs", "--limit", "1").document
    assert (run["kind"], run["status"], run["files"]) == ("purge", "done", len(table.purged()))
    assert run["subject"] == "lake.shop.orders"
    assert done.document["failed"] == 0
    assert done.document["failures"] == []
    assert done.document["bytes_deleted"] > 0


def test_a_dropped_table_is_gone_from_the_catalog(lakesweep: Lakesweep) -> None:
    assert lakesweep("iceberg", "purge", "lake.shop.t10", "--drop", "--yes").code == 0
    assert lakesweep("iceberg", "files", "lake.shop.t10").code == 6


def test_a_view_is_purged_by_its_own_rules(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    before = stored(bucket)
    assert lakesweep("iceberg", "purge", "lake.shop.big_orders", "--yes").code == 0
    assert before - stored(bucket) == {engine.table("lake.shop.big_orders").metadata_path}


def test_gc_enabled_false_is_respected_unless_overridden(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    before = stored(bucket)
    refused = lakesweep("iceberg", "purge", "lake.shop.nogc", "--yes")
    assert refused.code == 3
    assert "gc.enabled" in refused.error["hint"]
    assert stored(bucket) == before
    done = lakesweep("iceberg", "purge", "lake.shop.nogc", "--yes", "--override", "gc.enabled")
    assert done.code == 0
    assert before - stored(bucket) == engine.table("lake.shop.nogc").purged()


@pytest.mark.parametrize(
    "name",
    [
        "lake.shop.plain_v1",  # registered twice: another table reaches its files
        "lake.shop.registered",
        "lake.shop.renamed",  # two live tables in one folder
        "lake.shop.renamed_old",
        "lake.shop.outer",  # another table inside its folder
        "lake.shop.inner",
        "lake.shop.added",  # files that were added from elsewhere, and belong to another table too
    ],
)
@pytest.mark.parametrize("how", [[], ["--base-location", "--override", "foreign"]])
def test_no_purge_takes_a_file_that_another_table_reaches(
    name: str, how: list[str], lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    needed = {
        path for table in engine.tables() if table.name != name for _, path in table.referenced()
    }
    done = lakesweep("iceberg", "purge", name, "--yes", *how)
    assert done.code == 0
    assert needed & {f"s3://lake/{key}" for key in engine.objects} <= stored(bucket)
    if not how:
        own = engine.table(name).purged() - needed
        assert not own & stored(bucket)
        assert "warning" in done.err


@pytest.mark.parametrize("name", ["lake.shop.renamed", "lake.shop.inner"])
def test_a_base_location_that_another_table_holds_is_refused(
    name: str, lakesweep: Lakesweep, bucket: S3Server
) -> None:
    before = stored(bucket)
    done = lakesweep("iceberg", "purge", name, "--base-location", "--yes")
    assert done.code == 3
    assert "--override" not in done.error["hint"]
    assert stored(bucket) == before


def test_an_overridden_base_location_takes_all_that_no_other_table_reaches(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    inner, before = engine.table("lake.shop.inner"), stored(bucket)
    words = ["--base-location", "--override", "foreign", "--yes"]
    assert lakesweep("iceberg", "purge", inner.name, *words).code == 0
    folder = inner.answer["location"] + "/"
    assert before - stored(bucket) == {path for path in before if path.startswith(folder)}


def test_a_base_location_spares_its_neighbours(lakesweep: Lakesweep, bucket: S3Server) -> None:
    before = stored(bucket)
    assert lakesweep("iceberg", "purge", "lake.shop.t1", "--base-location", "--yes").code == 0
    assert before - stored(bucket) == {
        path for path in before if path.startswith("s3://lake/warehouse/shop/t1/")
    }


def test_an_unreadable_neighbour_stops_a_purge(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    twin = engine.table("lake.shop.registered").metadata_path
    bucket.boto3().delete_object(Bucket=BUCKET, Key=twin.removeprefix("s3://lake/"))
    before = stored(bucket)
    done = lakesweep("iceberg", "purge", "lake.shop.plain_v1", "--yes")
    assert done.code == 3
    assert "lake.shop.registered" in done.error["message"]
    assert stored(bucket) == before


def test_limits_of_pace_are_taken(lakesweep: Lakesweep) -> None:
    words = ["--files-per-second", "5000", "--batches-per-second", "100", "--batch-size", "3"]
    assert lakesweep("iceberg", "purge", "lake.shop.t10", "--yes", *words).code == 0


def test_a_rest_catalog_serves_every_kind_of_table(
    lakesweep: Lakesweep, engine: EngineLake
) -> None:
    names = [table for table in engine.tables() if table.name.startswith("lake.")]
    catalog = RestCatalogServer(
        tables={tuple(t.name.split(".")[1:]): t.metadata_path for t in names if not t.is_view},
        views={tuple(t.name.split(".")[1:]): t.metadata_path for t in names if t.is_view},
    )
    catalog.tables["deep", "er", "t1"] = engine.table("lake.shop.t1").metadata_path
    assert lakesweep.config is not None
    with rest_catalog(catalog) as running:
        lakesweep.config.write_text(lakesweep.config.read_text() + TWICE.format(uri=running.uri))
        for name in ("shop.draft_v4", "shop.events", "shop.big_orders", "deep.er.t1"):
            done = lakesweep("iceberg", "files", f"rest.{name}", "--unique")
            found = {(line["kind"], identity(line["path"])) for line in done.lines}
            table = f"lake.shop.{name.rpartition('.')[2]}"
            assert found == referenced(engine, table), done.err
        assert lakesweep("iceberg", "files", "rest.shop.nowhere").code == 6
        assert lakesweep("iceberg", "purge", "rest.deep.er.t1", "--dry-run").code == 0


def test_a_rest_catalog_may_hand_out_the_keys_to_the_files(
    bucket: S3Server,
    engine: EngineLake,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    table = engine.table("lake.shop.t1")
    vended = {
        "s3.endpoint": bucket.endpoint,
        "s3.access-key-id": bucket.access_key_id,
        "s3.secret-access-key": bucket.secret_access_key,
        "s3.region": "us-east-1",
    }
    catalog = RestCatalogServer({("shop", "t1"): table.metadata_path}, {}, vended)
    with rest_catalog(catalog) as running:
        config = tmp_path / "lakesweep.toml"
        lake = '[lakes.prod]\nlocations = ["s3://lake/warehouse"]\n'
        config.write_text(lake + TWICE.format(uri=running.uri))
        done = Lakesweep(capfd, config)("iceberg", "files", "rest.shop.t1")
    assert {(line["kind"], line["path"]) for line in done.lines} == table.referenced(), done.err
