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
from tests.paimon import JavaWarehouses

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
    assert "--override" not in refused.error["hint"]
    assert lake.purge("prod.shop.a", "--override", "foreign").code == 3
    assert lake.rows("prod.shop.a") == 10


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
    assert done.code == 0, done.err
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


def test_a_table_that_came_while_the_question_stood_keeps_its_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = lake.table("prod.shop.a")

    def answer_late(*_: object, **__: object) -> None:
        lake.catalogs["dev"].register_table("shop.late", a.metadata_location)

    monkeypatch.setattr("lakesweep.cli.context.Context.confirm", answer_late)
    done = lake.purge("prod.shop.a")
    assert (done.document["deleted"], done.document["protected"]) == (0, 5)
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
@pytest.mark.parametrize("root", ["file", "folder"])
def test_a_metadata_root_that_moved_on_keeps_what_it_took_up(
    lake: Lake, how: list[str], root: str
) -> None:
    """The root names an old version, or the folder of a table without a catalog."""
    a = lake.table("prod.shop.a")
    b = lake.table("dev.shop.b", location=f"{lake.folder}/alone")
    named = hadoop_table(lake, "alone") if root == "folder" else b.metadata_location
    b.add_files(lake.data_files(a))
    if root == "folder":
        hadoop_table(lake, "alone")
    _add_root(lake, f'type = "iceberg-metadata"\nfiles = ["{named}"]')
    lake.catalogs["dev"].drop_table("shop.b")
    done = lake.purge("prod.shop.a", *how)
    assert (done.code, done.document["protected"]) == (0, 1), done.err
    assert all(Path(path).exists() for path in lake.data_files(b))


def hadoop_table(lake: Lake, name: str) -> str:
    """Lays a table out as one without a catalog: numbered versions, and a hint to the newest."""
    folder = lake.folder / name
    versions = sorted((folder / "metadata").glob("0*.metadata.json"))
    for number, version in enumerate(versions, 1):
        (folder / f"metadata/v{number}.metadata.json").write_bytes(version.read_bytes())
    (folder / "metadata/version-hint.text").write_text(str(len(versions)))
    return str(folder)


def test_a_table_without_a_catalog_is_purged_though_it_is_a_root_itself(lake: Lake) -> None:
    lake.table("dev.shop.b", location=f"{lake.folder}/alone")
    folder = hadoop_table(lake, "alone")
    _add_root(lake, f'type = "iceberg-metadata"\nfiles = ["{folder}"]')
    lake.catalogs["dev"].drop_table("shop.b")
    done = lake.purge(folder)
    assert (done.code, done.document["protected"]) == (0, 0), done.err
    assert not list(Path(folder, "data").rglob("*.parquet"))


def test_files_that_a_paimon_table_references_stay(lake: Lake, java_tables: JavaWarehouses) -> None:
    days = java_tables.table("append_dt").copy_to(lake.folder / "paimon")
    files = lake.lakesweep("paimon", "files", str(days.folder)).lines
    data = next(line["path"] for line in files if line["kind"] == "data")
    name_statistics(lake.table("prod.shop.a"), data)
    _add_root(lake, f'type = "paimon-warehouse"\npath = "{lake.folder}/paimon"')
    done = lake.purge("prod.shop.a", "--override", "outside")
    assert (done.code, done.document["protected"]) == (0, 1), done.err
    assert Path(data).exists()


def test_what_no_paimon_table_references_goes_even_in_its_warehouse(lake: Lake) -> None:
    lake.table("prod.shop.a")
    _add_root(lake, f'type = "paimon-warehouse"\npath = "{lake.folder}/warehouse"')
    done = lake.purge("prod.shop.a")
    assert (done.code, done.document["deleted"]) == (0, 5)


def name_statistics(table: Table, *paths: str) -> None:
    """Lets the metadata of a table name files as its own, as anybody who can write it may."""
    document = json.loads(Path(table.metadata_location).read_text())
    document["statistics"] = [{"statistics-path": path, "snapshot-id": 1} for path in paths]
    Path(table.metadata_location).write_text(json.dumps(document))


@pytest.mark.parametrize("words", [[], ["--override", "outside"]])
def test_no_metadata_deletes_what_is_lakesweeps_own(lake: Lake, words: list[str]) -> None:
    lake.lakesweep("store", "init")
    held = lake.folder / "warehouse/_lakesweep/quarantine/p/x.parquet"
    held.parent.mkdir(parents=True)
    held.write_bytes(b"held")
    plan = lake.folder / ".lakesweep/plans/local/p/plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_bytes(b"{}")
    store = lake.folder / ".lakesweep/store.db"
    own = [lake.folder / "lakesweep.toml", lake.folder / "catalog.db", store, held, plan]
    assert all(path.exists() for path in own)
    name_statistics(lake.table("prod.shop.a"), *map(str, own))
    done = lake.purge("prod.shop.a", *words)
    assert (done.code, done.document["protected"]) == (0, len(own)), done.err
    assert all(path.exists() for path in own)


def test_files_outside_go_only_if_that_is_said_by_name(lake: Lake) -> None:
    shadow = lake.folder / "etc/shadow"
    shadow.parent.mkdir()
    shadow.write_bytes(b"root")
    name_statistics(lake.table("prod.shop.a"), str(shadow))
    refused = lake.purge("prod.shop.a")
    assert (refused.code, str(shadow) in refused.error["message"]) == (3, True)
    assert shadow.exists()
    assert lake.purge("prod.shop.a", "--override", "outside").code == 0
    assert not shadow.exists()


def _put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"precious")
    return str(path)


def test_a_lake_around_a_table_is_not_its_own(lake: Lake) -> None:
    """Consent to files outside is none to what others keep there, or a lake excludes."""
    warehouse = lake.folder / "warehouse"
    config = lake.folder / "lakesweep.toml"
    locations = f'locations = ["{warehouse}"]\n'
    text = config.read_text().replace(locations, f'{locations}exclude = ["raw/**"]\n')
    config.write_text(text)
    lake.table("prod.shop.b")
    _put(warehouse / "p.db/p/snapshot/snapshot-1")
    _put(warehouse / "p.db/p/schema/schema-0")
    _put(warehouse / "delta/_delta_log/00000000000000000000.json")
    staying = [
        _put(warehouse / "raw/upload.parquet"),
        _put(warehouse / "p.db/p/bucket-0/data-0.parquet"),
        _put(warehouse / "delta/day=1/part-0.parquet"),
        _put(warehouse / "prod.shop.b/data/of-a-writer.parquet"),
    ]
    loose = _put(warehouse / "loose/upload.parquet")
    a = lake.table("prod.shop.a")
    name_statistics(a, *staying, loose)

    refused = lake.purge("prod.shop.a")
    assert (refused.code, "outside" in refused.error["message"]) == (3, True)
    assert Path(a.metadata_location).exists()

    done = lake.purge("prod.shop.a", "--override", "outside")
    assert (done.code, done.document["protected"]) == (0, len(staying)), done.err
    assert all(Path(path).exists() for path in staying)
    assert not Path(loose).exists()


def test_a_table_called_metadata_does_not_own_the_folder_above(lake: Lake) -> None:
    warehouse = lake.folder / "warehouse"
    precious = _put(warehouse / "lost/data/x.parquet")
    a = lake.table("prod.shop.a", location=f"{warehouse}/metadata")
    name_statistics(a, precious)
    document = json.loads(Path(a.metadata_location).read_text())
    pointer = warehouse / "metadata/00009-x.metadata.json"
    pointer.write_text(json.dumps({**document, "location": str(warehouse)}))
    lake.catalogs["prod"].drop_table("shop.a")
    lake.table("prod.shop.b")
    assert lake.purge(str(pointer)).code == 3
    assert Path(precious).exists()


def test_a_table_that_another_format_publishes_is_refused(lake: Lake) -> None:
    a = lake.table("prod.shop.a")
    _put(Path(a.location()) / "_delta_log/00000000000000000000.json")
    refused = lake.purge("prod.shop.a")
    assert (refused.code, "Delta table" in refused.error["message"]) == (3, True)
    assert lake.rows("prod.shop.a") == ROWS.num_rows
    assert lake.purge("prod.shop.a", "--override", "foreign").code == 0


def test_a_location_that_metadata_merely_claims_is_outside(lake: Lake) -> None:
    """A table can be written with any location; it owns no more than where its metadata lies."""
    shadow = lake.folder / "etc/shadow"
    shadow.parent.mkdir()
    shadow.write_bytes(b"root")
    a = lake.table("prod.shop.a", location=f"{lake.folder}/elsewhere/a")
    name_statistics(a, str(shadow))
    document = json.loads(Path(a.metadata_location).read_text())
    Path(a.metadata_location).write_text(json.dumps({**document, "location": str(lake.folder)}))
    assert lake.purge("prod.shop.a").code == 3
    assert lake.purge("prod.shop.a", "--base-location").code == 3
    assert shadow.exists()


def test_nothing_is_purged_beside_repositories_that_cannot_be_read(lake: Lake) -> None:
    lake.table("prod.shop.a")
    _add_root(lake, 'type = "lakefs"\nendpoint = "http://127.0.0.1:1"\nrepositories = ["x"]')
    done = lake.purge("prod.shop.a")
    assert (done.code, "cannot be read" in done.error["message"]) == (3, True)
    assert lake.rows("prod.shop.a") == ROWS.num_rows


@pytest.mark.parametrize("words", [[], ["--override", "outside", "--override", "foreign"]])
def test_a_table_cannot_name_files_of_another_store(lake: Lake, words: list[str]) -> None:
    stray = "s3://bucket/precious"
    name_statistics(lake.table("prod.shop.a"), stray)
    done = lake.purge("prod.shop.a", "--dry-run", *words)
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
