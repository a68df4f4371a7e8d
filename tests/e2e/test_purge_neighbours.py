"""Tables that share files in every way that has cost somebody a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.command import Done, Lakesweep

CONFIG = """\
[lakes.local]
locations = ["{folder}/warehouse"]

[[lakes.local.roots]]
type = "iceberg-catalog"
name = "prod"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}

[[lakes.local.roots]]
type = "iceberg-catalog"
name = "dev"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


class Lake:
    """Two catalogs in one database; every table has a few rows."""

    def __init__(self, folder: Path, lakesweep: Lakesweep) -> None:
        self.folder = folder
        self.lakesweep = lakesweep
        self.catalogs = {
            name: SqlCatalog(
                name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse"
            )
            for name in ("prod", "dev")
        }
        for catalog in self.catalogs.values():
            catalog.create_namespace("shop")

    def table(self, name: str, location: str = "", **properties: str) -> Table:
        catalog, _, rest = name.partition(".")
        named = {key.replace("_", "."): value for key, value in properties.items()}
        place = location or f"{self.folder}/warehouse/{name}"
        table = self.catalogs[catalog].create_table(rest, ROWS.schema, place, properties=named)
        table.append(ROWS)
        return table

    def data_files(self, table: Table) -> list[str]:
        return [str(path) for path in table.inspect.all_files()["file_path"].to_pylist()]

    def purge(self, name: str, *words: str) -> Done:
        return self.lakesweep("iceberg", "purge", name, "--yes", *words)

    def rows(self, name: str) -> int:
        catalog, _, rest = name.partition(".")
        return int(self.catalogs[catalog].load_table(rest).scan().to_arrow().num_rows)


@pytest.fixture
def lake(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lake:
    (tmp_path / "warehouse").mkdir()
    config = tmp_path / "lakesweep.toml"
    config.write_text(CONFIG.format(folder=tmp_path))
    return Lake(tmp_path, Lakesweep(capfd, config))


@pytest.mark.parametrize("how", [[], ["--base-location"]])
def test_files_that_another_table_added_from_here_stay(lake: Lake, how: list[str]) -> None:
    a = lake.table("prod.shop.a")
    b = lake.table("dev.shop.b", location=f"{lake.folder}/far/away")
    b.add_files(lake.data_files(a))
    done = lake.purge("prod.shop.a", *how)
    assert done.code == 0
    assert done.document["protected"] == 1
    assert lake.rows("dev.shop.b") == 20


@pytest.mark.parametrize("how", [[], ["--base-location"]])
def test_files_that_another_table_once_wrote_here_stay(lake: Lake, how: list[str]) -> None:
    lake.table("prod.shop.a")
    inside = f"{lake.folder}/warehouse/prod.shop.a/data/guests"
    b = lake.table("prod.shop.b", **{"write.data.path": inside})
    with b.transaction() as change:
        change.remove_properties("write.data.path")
    assert lake.purge("prod.shop.a", *how).code == 0
    assert lake.rows("prod.shop.b") == 10


def break_metadata(lake: Lake) -> None:
    location = lake.catalogs["prod"].load_table("shop.b").metadata_location
    Path(location).write_text("{")


def break_manifest(lake: Lake) -> None:
    manifests = lake.catalogs["prod"].load_table("shop.b").inspect.all_manifests()["path"]
    Path(str(manifests[0])).unlink()


@pytest.mark.parametrize("damage", [break_metadata, break_manifest])
def test_a_table_that_cannot_be_read_vetoes_wherever_it_is(
    lake: Lake, damage: Callable[[Lake], None]
) -> None:
    lake.table("prod.shop.a")
    lake.table("prod.shop.b", location=f"{lake.folder}/far/away")
    damage(lake)
    refused = lake.purge("prod.shop.a")
    assert refused.code == 3
    assert "prod.shop.b" in refused.error["message"]
    assert lake.rows("prod.shop.a") == 10
    assert lake.purge("prod.shop.a", "--override", "foreign").code == 0


@pytest.mark.parametrize("how", [[], ["--base-location", "--override", "foreign"]])
def test_a_folder_under_another_name_is_the_same_folder(lake: Lake, how: list[str]) -> None:
    lake.table("prod.shop.a")
    (lake.folder / "link").symlink_to(lake.folder / "warehouse/prod.shop.a")
    lake.table("prod.shop.b", location=f"{lake.folder}/link")
    if how:
        assert lake.purge("prod.shop.a", "--base-location").code == 3
    assert lake.purge("prod.shop.a", *how).code == 0
    assert lake.rows("prod.shop.b") == 10


def test_catalogs_of_pyicebergs_own_configuration_count_too(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = lake.table("prod.shop.a")
    other = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=str(tmp_path))
    other.create_namespace("x")
    other.register_table("x.twin", a.metadata_location)
    monkeypatch.setenv("PYICEBERG_CATALOG__OWN__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__OWN__URI", f"sqlite:///{tmp_path}/own.db")
    done = lake.purge("prod.shop.a")
    assert done.document["deleted"] == 0
    assert other.load_table("x.twin").scan().to_arrow().num_rows == 10


def test_an_address_that_several_names_stand_for_is_refused(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    assert lake.purge(a.metadata_location, "--dry-run").code == 0
    lake.catalogs["dev"].register_table("shop.twin", a.metadata_location)
    done = lake.purge(a.metadata_location)
    assert done.code == 3
    assert "dev.shop.twin" in done.error["message"]
    assert lake.rows("dev.shop.twin") == 10


def test_a_table_that_came_while_the_question_stood_stops_the_purge(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = lake.table("prod.shop.a")

    def answer_late(*_: object, **__: object) -> None:
        lake.catalogs["dev"].register_table("shop.late", a.metadata_location)

    monkeypatch.setattr("lakesweep.cli.context.Context.confirm", answer_late)
    done = lake.purge("prod.shop.a")
    assert done.code == 3
    assert "since the plan was made" in done.error["message"]
    assert lake.rows("dev.shop.late") == 10


def test_a_commit_while_the_question_stood_stops_the_purge(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = lake.table("prod.shop.a")
    monkeypatch.setattr("lakesweep.cli.context.Context.confirm", lambda *_, **__: a.append(ROWS))
    assert lake.purge("prod.shop.a").code == 3
    assert lake.rows("prod.shop.a") == 20


def test_pinned_files_and_folders_stay(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    pinned = lake.folder / "keep.txt"
    pinned.write_text(f"# for the auditors\n\n{a.location()}/data\n{a.metadata_location}\n")
    assert lake.lakesweep.config is not None
    with lake.lakesweep.config.open("a") as config:
        config.write(f'[[lakes.local.roots]]\ntype = "pinned"\nfile = "{pinned}"\n')
    assert lake.purge("prod.shop.a").document["protected"] == 2
    assert Path(a.metadata_location).exists()
    assert len(list(Path(a.location(), "data").iterdir())) == 1


def _add_root(lake: Lake, root: str) -> None:
    config = lake.folder / "lakesweep.toml"
    config.write_text(f"{config.read_text()}\n[[lakes.local.roots]]\n{root}\n")


@pytest.mark.parametrize("how", [[], ["--base-location"]])
def test_files_in_a_paimon_warehouse_stay(lake: Lake, how: list[str]) -> None:
    a = lake.table("prod.shop.a")
    [data] = lake.data_files(a)
    warehouse = Path(data.removeprefix("file://")).parent
    _add_root(lake, f'type = "paimon-warehouse"\npath = "{warehouse}"')
    done = lake.purge("prod.shop.a", *how)
    assert done.document["protected"] == 1
    assert [path.name for path in warehouse.iterdir()] == [Path(data).name]


def test_a_table_in_a_paimon_warehouse_is_not_purged(lake: Lake) -> None:
    lake.table("prod.shop.a")
    _add_root(lake, f'type = "paimon-warehouse"\npath = "{lake.folder}/warehouse"')
    done = lake.purge("prod.shop.a")
    assert (done.code, "another format uses" in done.error["message"]) == (3, True)
    assert lake.rows("prod.shop.a") == ROWS.num_rows
    assert lake.purge("prod.shop.a", "--override", "foreign").code == 0


def test_nothing_is_purged_beside_repositories_that_cannot_be_read(lake: Lake) -> None:
    lake.table("prod.shop.a")
    _add_root(lake, 'type = "lakefs"\nendpoint = "http://127.0.0.1:1"\nrepositories = ["x"]')
    done = lake.purge("prod.shop.a")
    assert (done.code, "cannot be read" in done.error["message"]) == (3, True)
    assert lake.rows("prod.shop.a") == ROWS.num_rows


def test_a_table_cannot_name_files_of_another_kind_of_store(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    document = json.loads(Path(a.metadata_location).read_text())
    stray = "s3://bucket/precious"
    document["statistics"] = [{"statistics-path": stray, "snapshot-id": 1}]
    Path(a.metadata_location).write_text(json.dumps(document))
    done = lake.purge("prod.shop.a", "--dry-run")
    assert done.code == 3
    assert stray in done.error["message"]


def test_the_current_metadata_goes_last_whatever_the_table_calls_it(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    document = json.loads(Path(a.metadata_location).read_text())
    document["statistics"] = [{"statistics-path": a.metadata_location, "snapshot-id": 1}]
    Path(a.metadata_location).write_text(json.dumps(document))
    done = lake.purge("prod.shop.a", "--dry-run", "-v")
    assert "statistics" not in done.err
    assert done.document["found"] == 5


def test_a_dry_run_tells_what_cannot_be_read(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    Path(str(a.inspect.all_manifests()["path"][0])).write_bytes(b"Obj")
    done = lake.purge("prod.shop.a", "--dry-run")
    assert done.code == 4
    assert done.document["failures"][0]["reason"].startswith("truncated")


def test_damaged_files_of_the_log_are_told(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    Path(a.metadata.metadata_log[0].metadata_file).write_text("{")
    done = lake.purge("prod.shop.a")
    assert done.code == 4
    assert Path(a.metadata_location).exists()


def test_after_a_drop_the_way_to_repeat_is_named(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    Path(str(a.inspect.all_manifests()["path"][0])).write_bytes(b"Obj")
    done = lake.purge("prod.shop.a", "--drop")
    assert done.code == 4
    assert f"lakesweep iceberg purge {a.metadata_location}" in done.err
