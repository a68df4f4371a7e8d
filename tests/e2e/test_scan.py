"""`lakesweep scan`: tables of PyIceberg in a folder, of engines on S3, and of Paimon."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lakesweep.operations.tables.scan import ScanRequest, scan_tables
from lakesweep.operations.upkeep.iceberg_rewrites import (
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    rewrite_table,
)
from tests.command import Lakesweep
from tests.e2e.test_iceberg_commands import CONFIG as ENGINE_CONFIG
from tests.iceberg_expiries import AtticApp
from tests.lake import EngineLake
from tests.paimon import JavaWarehouses
from tests.servers import S3Server

CONFIG = """\
[lakes.local]
locations = ["{folder}/warehouse"]

[[lakes.local.roots]]
type = "iceberg-catalog"
name = "local"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""
ROWS = pa.table({"id": list(range(1000))})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "warehouse").mkdir()
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("local", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    (tmp_path / "lakesweep.toml").write_text(CONFIG.format(folder=tmp_path))
    return catalog


@pytest.fixture
def lakesweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd, tmp_path / "lakesweep.toml")


def rewrite(table: Table, count: int) -> None:
    """Write the same rows some times, the last of which are current."""
    table.append(ROWS)
    for _ in range(count - 1):
        table.overwrite(ROWS)


def scanned(lakesweep: Lakesweep, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = lakesweep("scan", *words)
    assert done.code == code, done.err
    return {each["table"]: each for each in done.document["tables"]}


def test_what_old_snapshots_hold_is_what_an_expiry_frees(
    catalog: SqlCatalog, lakesweep: Lakesweep
) -> None:
    table = catalog.create_table("shop.orders", ROWS.schema)
    rewrite(table, 3)
    table.append(ROWS)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    found = scanned(lakesweep, "--catalog", "local")["local.shop.orders"]
    dry = ("--older-than", "0s", "--retain-last", "1", "--dry-run")
    expiry = lakesweep("iceberg", "expire-snapshots", "local.shop.orders", *dry).document
    assert found["old_bytes"] == found["free_bytes"] == expiry["bytes_deleted"] > 0
    assert found["old_files"] == sum(expiry["deleted"].values())
    assert found["snapshots"] == len(table.refresh().snapshots())
    assert (found["refs"], found["data_files"], found["small_files"]) == (2, 2, 2)
    assert found["measured_by"] == "all"


def test_summaries_say_what_old_snapshots_hold_if_there_are_too_many(
    catalog: SqlCatalog, lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.orders", ROWS.schema)
    rewrite(table, 3)
    size = next(iter(table.inspect.data_files()["file_size_in_bytes"].to_pylist()))
    monkeypatch.setattr("lakesweep.upkeep.scan.iceberg_figures._MOST_LISTS", 1)
    found = scanned(lakesweep, "local")["local.shop.orders"]
    assert (found["measured_by"], found["old_bytes"], found["data_files"]) == (
        "current",
        2 * size,
        1,
    )
    monkeypatch.setattr("lakesweep.upkeep.scan.iceberg_figures._MOST_MANIFESTS", 0)
    found = scanned(lakesweep, "local")["local.shop.orders"]
    assert (found["measured_by"], found["old_bytes"], found["data_files"]) == (
        "summaries",
        2 * size,
        1,
    )
    assert found["small_files"] is None


def test_the_table_that_could_free_most_comes_first_and_one_that_is_broken_stops_no_other(
    catalog: SqlCatalog, lakesweep: Lakesweep
) -> None:
    for name, count in (("a_little", 2), ("much", 6), ("broken", 1)):
        table = catalog.create_table(f"shop.{name}", ROWS.schema)
        rewrite(table, count)
    broken = catalog.load_table("shop.broken").metadata_location
    Path(broken.removeprefix("file://")).write_text("{")
    done = lakesweep("scan", "local")
    assert done.code == 4
    tables = done.document["tables"]
    assert [each["table"].rpartition(".")[2] for each in tables] == ["much", "a_little", "broken"]
    assert tables[2]["findings"] == ["unreadable"]
    assert "metadata.json" in tables[2]["reason"]
    assert done.document["totals"]["unreadable"] == 1
    text = lakesweep("scan", "local", json=False)
    assert "local.shop.broken: " in text.err
    assert text.out.index("much") < text.out.index("broken")


def test_a_manifest_that_is_lost_is_said_and_the_rest_is_shown(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    table = catalog.create_table("shop.orders", ROWS.schema)
    table.append(ROWS)
    next(tmp_path.rglob("*-m0.avro")).unlink()
    found = scanned(lakesweep, "local", code=4)["local.shop.orders"]
    assert "partly unreadable" in found["findings"]
    assert found["snapshots"] == 1


def test_snapshots_are_overdue_by_the_table_s_own_rules(
    catalog: SqlCatalog, lakesweep: Lakesweep
) -> None:
    age = str(timedelta(days=1) // timedelta(milliseconds=1))
    for name, properties in (
        ("strict", {"history.expire.max-snapshot-age-ms": "0"}),
        ("lax", {"history.expire.max-snapshot-age-ms": age}),
    ):
        table = catalog.create_table(f"shop.{name}", ROWS.schema, properties=properties)
        for _ in range(3):
            table.append(ROWS)
    found = scanned(lakesweep, "local")
    strict, lax = found["local.shop.strict"], found["local.shop.lax"]
    assert strict["overdue_snapshots"] == 2
    assert {"never expired", "snapshots overdue"} <= set(strict["findings"])
    assert lax["overdue_snapshots"] == 0
    assert "never expired" not in lax["findings"]
    (expired,) = [strict["table"]]
    lakesweep("iceberg", "expire-snapshots", expired, "--yes")
    assert "never expired" not in scanned(lakesweep, "local")[expired]["findings"]


def test_folders_that_tables_share_are_named(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    place = f"file://{tmp_path}/warehouse/common"
    catalog.create_table("shop.outer", ROWS.schema, location=place)
    catalog.create_table("shop.inner", ROWS.schema, location=f"{place}/inner")
    catalog.create_table("shop.alone", ROWS.schema)
    document = lakesweep("scan", "local").document
    (shared,) = document["shared_folders"]
    assert shared["tables"] == ["local.shop.inner", "local.shop.outer"]
    assert shared["inside"] == place
    sharing = [each["table"] for each in document["tables"] if each["findings"]]
    assert sorted(sharing) == ["local.shop.inner", "local.shop.outer"]


def test_a_page_has_charts_and_no_script(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    table = catalog.create_table("shop.<b>odd</b>", ROWS.schema)
    rewrite(table, 2)
    done = lakesweep("scan", "local", "--html", str(tmp_path / "scan.html"))
    assert (done.code, done.document["written"]) == (0, str(tmp_path / "scan.html"))
    page = (tmp_path / "scan.html").read_text()
    assert "<svg" in page
    assert "&lt;b&gt;odd" in page
    assert "<b>odd" not in page
    assert "<script" not in page


def test_tables_of_engines_on_s3_are_scanned(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "engine.toml"
    uri = engine.copy_catalog(tmp_path)
    config.write_text(
        ENGINE_CONFIG.format(
            endpoint=bucket.endpoint,
            key=bucket.access_key_id,
            secret=bucket.secret_access_key,
            uri=uri,
        )
    )
    found = scanned(Lakesweep(capfd, config), "prod")
    tables = {each.name for each in engine.tables() if not each.is_view}
    assert found.keys() == {name for name in tables if name.startswith("lake.")}
    for name in ("lake.shop.orders", "lake.shop.events"):
        kinds = [kind for kind, _ in engine.table(name).referenced()]
        assert found[name]["metadata_log"] == kinds.count("metadata-log")
        assert found[name]["snapshots"] == kinds.count("manifest-list")


def test_paimon_tables_are_scanned_as_far_as_they_say(
    java_tables: JavaWarehouses, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(java_tables.warehouse, warehouse)
    config = tmp_path / "paimon.toml"
    config.write_text(
        f'[lakes.p]\nlocations = ["{warehouse}"]\n\n[[lakes.p.roots]]\n'
        f'type = "paimon-warehouse"\npath = "{warehouse}"\n'
    )
    found = scanned(Lakesweep(capfd, config), "p")
    assert {each["format"] for each in found.values()} == {"paimon"}
    one = next(each for each in found.values() if (each["snapshots"] or 0) > 1)
    folder = Path(one["table"])
    assert one["snapshots"] == len(list(folder.glob("snapshot/snapshot-*")))
    assert one["data_files"] > 0
    assert one["old_bytes"] is not None


def test_delete_files_that_hide_no_row_are_counted(tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, 1_790_000_000_000)
    found = {each.table: each for each in scan_tables(attic.app, ScanRequest(lake="l")).tables}
    request = RewriteTablesRequest(task=RemoveDanglingDeletes(), dry_run=True)
    with_deletes = {name: each for name, each in found.items() if each.delete_files}
    assert with_deletes
    for name, each in with_deletes.items():
        result = rewrite_table(attic.app, name, request, lambda _: None)
        assert each.dangling_deletes == result.figures["dangling"], name


def test_a_scan_names_one_subject(catalog: SqlCatalog, lakesweep: Lakesweep) -> None:
    assert lakesweep("scan").code == 2
    assert lakesweep("scan", "local", "--catalog", "local").code == 2
    assert lakesweep("scan", "nothing").code == 6
