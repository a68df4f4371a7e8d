"""What others need is not deleted with Paimon tables, wherever it lies.

A table names its external folders itself, so nothing is deleted there on its word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakesweep.app import App
from lakesweep.clock import ManualClock
from lakesweep.config import Config
from lakesweep.errors import DamagedError, LakesweepError, RefusedError
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.tables.paimon_expiry import (
    ExpireHistoryRequest,
    ExpireTagsRequest,
    ExpiryResult,
    expire_snapshots,
    expire_tags,
)
from lakesweep.operations.tables.paimon_orphans import (
    CleanOrphansRequest,
    CleanOrphansResult,
    clean_orphans,
)
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.sweep.engine.protocol import SweepEngine
from tests.paimon_tables import File, Index, Table

KEEP_ONE = RetentionOverrides(retain_min=1, retain_max=1)
ORPHAN = "data-00000000-0000-0000-0000-000000000000-0.parquet"


def put(
    folder: Path,
    options: Mapping[str, str],
    *files: File,
    live: Collection[File] = (),
    indexes: Collection[Index] = (),
) -> Path:
    """A table on disk that lost files and indexes with its second snapshot, and kept some."""
    table = Table(options=options)
    index: dict[str, Any] = {"indexManifest": table.index_manifest(*indexes)} if indexes else {}
    added = table.manifest(*files, *live)
    table.snapshot(1, added, **index)
    deleted = [File(each.name, kind=1, external_path=each.external_path) for each in files]
    table.snapshot(2, table.manifest(*deleted), base=[added])
    for key in table.bucket.store.list("").entries["key"].to_pylist():
        path = folder / key.partition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(table.bucket.store.read(key))
    return folder


def write(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    return f"file://{path}"


def open_app(folder: Path, lakes: Mapping[str, object] | None = None) -> App:
    return SweepingApp(Config.model_validate({"lakes": lakes or {}}), folder=folder)


def expire(app: App, table: Path, *overrides: str) -> ExpiryResult:
    request = ExpireHistoryRequest(
        table=str(table),
        retention=KEEP_ONE,
        settle=timedelta(),
        overrides=frozenset(overrides),
    )
    return expire_snapshots(app, request, lambda _: None)


class SweepingApp(App):
    """An app that runs what is meant for Spark in this process, by the same sweep."""

    @contextmanager
    def engine(self, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        del name
        with super().engine("local", verbose=verbose) as engine:
            yield engine


def clean(
    app: App, path: Path, *overrides: str, engine: EngineName = EngineName.LOCAL
) -> CleanOrphansResult:
    now = datetime.now(UTC) - timedelta(microseconds=1)
    request = CleanOrphansRequest(str(path), now, engine=engine, overridden=("grace", *overrides))
    with clean_orphans(app, request, lambda _: None) as cleaned:
        return cleaned.result


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file in an external folder, which a table let go."""
    write(tmp_path / "out" / "bucket-0" / "data-1.parquet")
    external = f"file://{tmp_path}/out"
    put(
        tmp_path / "w" / "a.db" / "t",
        {"data-file.external-paths": external},
        File("data-1.parquet", external_path=f"{external}/bucket-0/data-1.parquet"),
    )
    return tmp_path / "out" / "bucket-0" / "data-1.parquet"


def test_an_expiry_refuses_external_files_that_are_in_no_lake(
    tmp_path: Path, outside: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefusedError, match=r"1 file of .* outside its location") as refused:
        expire(open_app(tmp_path), tmp_path / "w" / "a.db" / "t")
    assert refused.value.guard == "outside"
    assert sorted(tmp_path.rglob("*")) == before


def test_it_deletes_them_in_the_location_of_a_lake(tmp_path: Path, outside: Path) -> None:
    app = open_app(tmp_path, {"lake": {"locations": [str(tmp_path / "out")]}})
    assert expire(app, tmp_path / "w" / "a.db" / "t").deleted["data"] == 1
    assert not outside.exists()


def test_it_deletes_them_with_consent(tmp_path: Path, outside: Path) -> None:
    expire(open_app(tmp_path), tmp_path / "w" / "a.db" / "t", "outside")
    assert not outside.exists()


def test_consent_does_not_reach_another_bucket(tmp_path: Path) -> None:
    external = "memory://elsewhere"
    stolen = File("data-1.parquet", external_path=f"{external}/bucket-0/data-1.parquet")
    table = put(tmp_path / "t", {"data-file.external-paths": external}, stolen)
    app = open_app(tmp_path)
    app.stores.open(external).write("bucket-0/data-1.parquet", b"of others")
    with pytest.raises(RefusedError, match="in a bucket that is neither"):
        expire(app, table, "outside")
    assert app.stores.open(external).read("bucket-0/data-1.parquet") == b"of others"


@pytest.mark.parametrize("overrides", [(), ("outside",)])
def test_an_expiry_never_deletes_lakesweeps_own_files(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    app = open_app(tmp_path)
    _ = app.runs  # creates the store
    config, store = tmp_path / "lakesweep.toml", tmp_path / ".lakesweep" / "store.db"
    config.write_text("")
    assert store.exists()
    stolen = [
        Index(path.name, external_path=f"file://{path}", first_row=0) for path in (config, store)
    ]
    table = put(
        tmp_path / "t", {"global-index.external-path": f"file://{tmp_path}"}, indexes=stolen
    )
    expire(app, table, *overrides)
    assert config.exists()
    assert store.exists()


def test_not_even_if_they_are_in_the_folder_of_the_table(tmp_path: Path) -> None:
    app = open_app(tmp_path)
    config = tmp_path / "lakesweep.toml"
    config.write_text("")
    stolen = Index(config.name, external_path=f"file://{config}", first_row=0)
    expire(app, put(tmp_path, {}, indexes=[stolen]))
    assert config.exists()


@pytest.mark.parametrize("sign", ["schema/schema-0", "metadata/v1.metadata.json", "_delta_log/0"])
@pytest.mark.parametrize("overrides", [(), ("outside",)])
def test_an_expiry_deletes_nothing_in_the_folder_of_another_table(
    tmp_path: Path, sign: str, overrides: tuple[str, ...]
) -> None:
    victim = tmp_path / "w" / "b.db" / "victim"
    write(victim / sign)
    live = write(victim / "bucket-0" / "data-1.parquet")
    options = {
        "data-file.external-paths": f"file://{tmp_path}/w",
        "data-file.path-directory": "b.db/victim",
    }
    table = put(tmp_path / "w" / "a.db" / "t", options, File("data-1.parquet", external_path=live))
    app = open_app(tmp_path, {"lake": {"locations": [str(tmp_path / "w")]}})
    with pytest.raises(DamagedError, match="in the folder of the table"):
        expire(app, table, *overrides)
    assert (victim / "bucket-0" / "data-1.parquet").exists()


def _other_warehouse(tmp_path: Path, name: str) -> dict[str, object]:
    """A table of another warehouse with a live file in the same folder, and a lake around all."""
    external = f"file://{tmp_path}/out"
    path = write(tmp_path / "out" / "bucket-0" / name)
    options = {"data-file.external-paths": external}
    put(tmp_path / "other" / "c.db" / "t", options, live=[File(name, external_path=path)])
    roots = [{"type": "paimon-warehouse", "path": str(tmp_path / each)} for each in ("w", "other")]
    return {"lake": {"locations": [str(tmp_path)], "roots": roots}}


def test_an_expiry_leaves_what_a_table_of_another_warehouse_references(
    tmp_path: Path, outside: Path
) -> None:
    app = open_app(tmp_path, _other_warehouse(tmp_path, outside.name))
    assert expire(app, tmp_path / "w" / "a.db" / "t").deleted["snapshot"] == 1
    assert outside.exists()


@pytest.mark.parametrize("engine", EngineName)
def test_orphans_leave_what_a_table_of_another_warehouse_references(
    tmp_path: Path, outside: Path, engine: EngineName
) -> None:
    app = open_app(tmp_path, _other_warehouse(tmp_path, ORPHAN))
    unused = Path(write(outside.with_name(ORPHAN.replace("-0.", "-1."))).removeprefix("file://"))
    result = clean(app, tmp_path / "w", engine=engine)
    assert (tmp_path / "out" / "bucket-0" / ORPHAN).exists()
    assert not unused.exists()
    assert result.deleted == 1


@pytest.mark.parametrize("engine", EngineName)
def test_orphans_in_external_folders_that_are_in_no_lake_are_refused(
    tmp_path: Path, outside: Path, engine: EngineName
) -> None:
    orphan = outside.with_name(ORPHAN)
    write(orphan)
    app = open_app(tmp_path)
    (failure,) = clean(app, tmp_path / "w", engine=engine).failed_tables
    assert "names the external folder" in failure.reason
    assert orphan.exists()
    clean(app, tmp_path / "w", "outside", engine=engine)
    assert not orphan.exists()


def test_orphans_inside_tables_of_other_formats_below_an_external_folder_stay(
    tmp_path: Path, outside: Path
) -> None:
    inner = tmp_path / "out" / "bucket-0"
    write(inner / "metadata" / "v1.metadata.json")
    write(inner / ORPHAN)
    clean(open_app(tmp_path), tmp_path / "w", "outside")
    assert (inner / ORPHAN).exists()


def test_orphans_are_refused_if_our_clock_is_ahead(tmp_path: Path) -> None:
    table = put(tmp_path / "t", {})
    orphan = table / "bucket-0" / ORPHAN
    write(orphan)
    clock = ManualClock(datetime.now(UTC) + timedelta(days=3))
    app = App(Config(), folder=tmp_path, clock=clock)
    request = CleanOrphansRequest(str(table), clock.now() - timedelta(days=1))
    before = sorted(table.rglob("*"))
    with pytest.raises(RefusedError, match=r"the clock here is .* ahead") as refused:
        clean_orphans(app, request, lambda _: None).__enter__()
    assert refused.value.guard == "clock"
    assert sorted(table.rglob("*")) == before


@pytest.mark.parametrize("operation", [expire_snapshots, expire_tags])
def test_an_expiry_is_refused_if_our_clock_is_ahead(
    tmp_path: Path, operation: Callable[..., ExpiryResult]
) -> None:
    table = put(tmp_path / "t", {}, File("data-1.parquet"))
    (table / "tag").mkdir()
    (table / "tag" / "tag-old").write_bytes((table / "snapshot" / "snapshot-1").read_bytes())
    clock = ManualClock(datetime.now(UTC) + timedelta(days=3))
    app = App(Config(), folder=tmp_path, clock=clock)
    requests: dict[object, Any] = {
        expire_snapshots: partial(ExpireHistoryRequest, retention=KEEP_ONE),
        expire_tags: partial(ExpireTagsRequest, older_than=clock.now() - timedelta(days=1)),
    }
    request = partial(requests[operation], table=str(table), settle=timedelta())
    before = sorted(table.rglob("*"))
    with pytest.raises(RefusedError, match=r"the clock here is .* ahead") as refused:
        operation(app, request(), lambda _: None)
    assert refused.value.guard == "clock"
    assert sorted(table.rglob("*")) == before
    operation(app, request(dry_run=True), lambda _: None)
    operation(app, request(overrides=frozenset({"clock"})), lambda _: None)
    assert sorted(table.rglob("*")) != before


def test_the_options_of_old_schemas_prove_nothing_either(tmp_path: Path, outside: Path) -> None:
    table = tmp_path / "w" / "a.db" / "t"
    schema = json.loads((table / "schema" / "schema-0").read_text())
    newer = {**schema, "id": 1, "options": {}}
    (table / "schema" / "schema-1").write_text(json.dumps(newer))
    with pytest.raises(RefusedError, match="outside its location"):
        expire(open_app(tmp_path), table)
    assert outside.exists()


ROWS = pa.table({"id": [1, 2, 3]})


class Guests:
    """A Paimon table that let `data-1.parquet` go, and an Iceberg table beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = put(folder / "w" / "a.db" / "t", {}, File("data-1.parquet"))
        self.taken = self.write(self.table / "bucket-0" / "data-1.parquet")
        self.lake: dict[str, Any] = {"locations": [str(folder / "w")], "roots": []}

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, path)
        return path

    def catalog(self) -> SqlCatalog:
        """A catalog whose table lies elsewhere, and is a root of the lake."""
        properties = {"type": "sql", "uri": f"sqlite:///{self.folder}/prod.db"}
        root = {"type": "iceberg-catalog", "name": "prod", "properties": properties}
        self.lake["roots"].append(root)
        return SqlCatalog("prod", uri=properties["uri"], warehouse=f"file://{self.folder}/ice")

    def take_up(self, *files: Path) -> None:
        """Add files to the Iceberg table."""
        catalog = self.catalog()
        catalog.create_namespace("shop")
        guest = catalog.create_table("shop.guest", ROWS.schema)
        guest.add_files([f"file://{path}" for path in files])

    def pin(self, path: Path) -> None:
        pins = self.folder / "pins.txt"
        pins.write_text(f"{path}\n")
        self.lake["roots"].append({"type": "pinned", "file": str(pins)})

    def app(self, **lakes: object) -> App:
        return open_app(self.folder, {"lake": self.lake, **lakes})


@pytest.fixture
def guests(tmp_path: Path) -> Guests:
    return Guests(tmp_path)


def test_an_expiry_leaves_what_an_iceberg_table_took_up_from_the_tables_own_folder(
    guests: Guests,
) -> None:
    guests.take_up(guests.taken)
    result = expire(guests.app(), guests.table)
    assert result.deleted["snapshot"] == 1
    assert "data" not in result.deleted
    assert guests.taken.exists()


@pytest.mark.parametrize("engine", EngineName)
def test_orphans_leave_what_an_iceberg_table_took_up_from_the_tables_own_folder(
    guests: Guests, engine: EngineName
) -> None:
    taken = guests.write(guests.table / "bucket-0" / ORPHAN)
    unused = guests.write(taken.with_name(ORPHAN.replace("-0.", "-1.")))
    guests.take_up(taken)
    assert clean(guests.app(), guests.folder / "w", engine=engine).deleted == 1
    assert taken.exists()
    assert not unused.exists()


@pytest.mark.parametrize("engine", EngineName)
def test_orphans_leave_what_a_scan_finds(guests: Guests, engine: EngineName) -> None:
    taken = guests.write(guests.table / "bucket-0" / ORPHAN)
    guests.take_up(taken)
    scan = {"type": "iceberg-scan", "path": str(guests.folder / "ice"), "keep": True}
    guests.lake["roots"] = [scan]
    clean(guests.app(), guests.folder / "w", engine=engine)
    assert taken.exists()


def test_an_expiry_leaves_a_pinned_file(guests: Guests) -> None:
    guests.pin(guests.taken)
    assert expire(guests.app(), guests.table).deleted["snapshot"] == 1
    assert guests.taken.exists()


def test_an_expiry_of_a_pinned_snapshot_is_refused(guests: Guests) -> None:
    guests.pin(guests.table / "snapshot")
    before = sorted(guests.table.rglob("*"))
    with pytest.raises(RefusedError, match="snapshot-1 would expire") as refused:
        expire(guests.app(), guests.table)
    assert refused.value.guard == "referenced"
    assert sorted(guests.table.rglob("*")) == before


@pytest.mark.parametrize("engine", EngineName)
def test_a_broken_catalog_stops_everything_that_it_may_share(
    guests: Guests, engine: EngineName
) -> None:
    orphan = guests.write(guests.table / "bucket-0" / ORPHAN)
    guests.catalog()
    (guests.folder / "prod.db").write_bytes(b"no database")
    with pytest.raises(RefusedError, match="catalog prod may reference the files") as refused:
        expire(guests.app(), guests.table)
    assert refused.value.guard == "incomplete"
    with pytest.raises(LakesweepError, match="prod"):
        clean(guests.app(), guests.table, engine=engine)
    assert guests.taken.exists()
    assert orphan.exists()


def test_a_broken_catalog_of_a_closed_lake_stops_nothing_elsewhere(guests: Guests) -> None:
    guests.catalog()
    (guests.folder / "prod.db").write_bytes(b"no database")
    ice, guests.lake["roots"] = guests.lake["roots"], []
    closed = {"locations": [str(guests.folder / "ice")], "roots": ice, "closed": True}
    assert expire(guests.app(ice=closed), guests.table).deleted["data"] == 1
    assert not guests.taken.exists()


def test_roots_are_not_asked_if_that_is_said_by_name(guests: Guests) -> None:
    guests.pin(guests.table)
    assert expire(guests.app(), guests.table, "referenced").deleted["data"] == 1


def test_a_table_that_an_expiry_does_not_concern_is_not_read(guests: Guests) -> None:
    other = put(guests.folder / "w" / "a.db" / "other", {}, live=[File("data-2.parquet")])
    for manifest in (other / "manifest").iterdir():
        manifest.write_bytes(b"damaged")
    guests.lake["roots"] = [{"type": "paimon-warehouse", "path": str(guests.folder / "w")}]
    assert expire(guests.app(), guests.table).deleted["data"] == 1


def test_one_that_writes_into_the_table_is(guests: Guests) -> None:
    """Whose files are whose is unknown then, snapshots among them."""
    external = f"file://{guests.table}"
    live = File("data-1.parquet", external_path=f"file://{guests.taken}")
    put(guests.folder / "w" / "a.db" / "other", {"data-file.external-paths": external}, live=[live])
    guests.lake["roots"] = [{"type": "paimon-warehouse", "path": str(guests.folder / "w")}]
    with pytest.raises(RefusedError, match="a root of a lake keeps it"):
        expire(guests.app(), guests.table)
    assert guests.taken.exists()
