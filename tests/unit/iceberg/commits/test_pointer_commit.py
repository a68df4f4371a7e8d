"""Swaps of pointers: answers that never come, writers without locks, and what stays as it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from lakesweep.clock import ManualClock
from lakesweep.errors import LakesweepError, RefusedError, UnknownOutcomeError, UsageError
from lakesweep.iceberg.commits.metastore_pointers import GluePointer
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.pointer_commit import PointedFile, PointerHandle
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    MetadataChange,
    TableHandle,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.updates import SetProperties
from lakesweep.iceberg.table_identifier import IcebergTables
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from tests import iceberg_commits as kinds
from tests.database_servers import DatabaseServer
from tests.hive_metastore import HiveMetastore
from tests.iceberg_commits import Template, append, expire, ids, metadata_files, row_count
from tests.lossy_proxy import losing_answers
from tests.moments import NOON
from tests.servers import S3Server
from tests.unit.iceberg.test_metastores import client

NO_ANSWER = UnknownOutcomeError("no answer")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template.write(tmp_path_factory.mktemp("template"))


def _expire(table: TableHandle, base: LoadedTable | None = None) -> CommitOutcome:
    base = base or table.load()
    change = expire(base)
    assert change is not None
    return table.commit(base, change)


@dataclass
class _Pointer:
    """A pointer in memory whose answers are given or lost as it is told.

    `lost` and `late` swaps have no answer; a lost one was done, a late one is done by `deliver`.
    """

    location: str
    script: list[str] = field(default_factory=list)
    name: str = "t"
    waiting: list[tuple[str, str]] = field(default_factory=list)

    def look(self) -> PointedFile:
        return PointedFile(self.location, Stores())

    def swap(self, before: str, after: str, _: RawDocument, /) -> bool:
        step = self.script.pop(0) if self.script else "done"
        if step == "late":
            self.waiting.append((before, after))
            raise NO_ANSWER
        if step == "refused":
            raise LakesweepError("refused")
        is_done = self._swap(before, after)
        if step == "lost":
            raise NO_ANSWER
        if step == "repeated":  # by a client that does not tell
            return self._swap(before, after)
        return is_done

    def deliver(self) -> bool:
        return self._swap(*self.waiting.pop())

    def expired_by(self, _: LoadedTable) -> str | None:
        return None

    def _swap(self, before: str, after: str) -> bool:
        is_there = self.location == before
        self.location = after if is_there else self.location
        return is_there


def _handle(template: Template, *script: str) -> tuple[_Pointer, PointerHandle]:
    pointer = _Pointer(template.metadata, list(script))
    return pointer, PointerHandle(pointer, ManualClock(NOON))


@pytest.mark.parametrize("step", ["lost", "late", "repeated"])
def test_a_swap_without_an_answer_is_settled(template: Template, step: str) -> None:
    pointer, handle = _handle(template, step)
    outcome = _expire(handle)
    assert outcome.status is CommitStatus.COMMITTED
    assert outcome.table is not None
    assert pointer.location == outcome.table.location
    assert row_count(pointer.location) == 2 * kinds.SNAPSHOTS


def test_a_late_swap_cannot_undo_what_came_after(template: Template) -> None:
    pointer, handle = _handle(template, "late")
    assert _expire(handle).status is CommitStatus.COMMITTED
    newest = append(handle).location
    assert not pointer.deliver()
    assert pointer.location == newest


def test_without_any_answer_the_outcome_is_unknown_and_the_file_stays(template: Template) -> None:
    pointer, handle = _handle(template, *["late"] * 4)
    files = metadata_files(base := handle.load())
    outcome = _expire(handle)
    assert outcome.status is CommitStatus.UNKNOWN
    (new,) = metadata_files(base) - files
    assert pointer.deliver()
    assert row_count(f"file://{new}") == 2 * kinds.SNAPSHOTS


def test_another_writer_followed_the_base_while_the_outcome_was_open(template: Template) -> None:
    pointer, handle = _handle(template, "late")
    base = handle.load()
    pointer.location = append(PointerHandle(_Pointer(template.metadata))).location
    files = metadata_files(base)
    assert _expire(handle, base).status is CommitStatus.CONFLICT
    assert metadata_files(base) == files


def test_a_sure_refusal_removes_only_our_own_file(template: Template) -> None:
    _, handle = _handle(template, "refused")
    files = metadata_files(handle.load())
    with pytest.raises(LakesweepError, match="refused"):
        _expire(handle)
    assert metadata_files(handle.load()) == files


def test_postgresql_loses_the_answer_to_a_commit(
    template: Template, postgresql_databases: DatabaseServer
) -> None:
    with losing_answers(postgresql_databases.port, b"COMMIT") as lost:
        url = kinds.psycopg_url(postgresql_databases, port=lost.port)
        with kinds.sql(template, url) as table:
            before = table.load()
            lost.left = 1
            outcome = _expire(table)
            assert (outcome.status, lost.left) == (CommitStatus.COMMITTED, 0)
            assert ids(table.load()) == ids(before)[-1:]


def test_a_sql_catalog_keeps_the_other_rows(template: Template, tmp_path: Path) -> None:
    url = make_url(f"sqlite:///{tmp_path}/c.db")
    with kinds.sql(template, str(url)) as table:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                    " metadata_location) VALUES ('other', 'n', 't', :path)"
                ),
                {"path": template.metadata},
            )
        outcome = _expire(table)
        with engine.begin() as connection:
            rows = connection.execute(
                text(
                    "SELECT catalog_name, metadata_location, previous_metadata_location"
                    " FROM iceberg_tables ORDER BY 1"
                )
            ).fetchall()
        engine.dispose()
        assert outcome.table is not None
        assert [tuple(row) for row in rows] == [
            ("c", outcome.table.location, template.metadata),
            ("other", template.metadata, None),
        ]


@pytest.fixture
def metastore() -> HiveMetastore:
    return HiveMetastore()


@pytest.fixture
def hive(template: Template, metastore: HiveMetastore) -> Iterator[TableHandle]:
    with kinds.hive(template, metastore) as handle:
        yield handle


def test_hive_keeps_other_parameters(hive: TableHandle, metastore: HiveMetastore) -> None:
    before = hive.load()
    assert _expire(hive).status is CommitStatus.COMMITTED
    parameters, _ = metastore.tables["n", "t"]
    assert parameters["x-owner"] == "kept"
    assert parameters["snapshot-count"] == "1"
    assert parameters["previous_metadata_location"] == before.location
    assert metastore.locks == {}


def test_hive_loses_an_answer(hive: TableHandle, metastore: HiveMetastore) -> None:
    metastore.loses_answers = 1
    assert _expire(hive).status is CommitStatus.COMMITTED
    assert len(ids(hive.load())) == 1


def test_a_hive_writer_without_a_lock_is_noticed(
    hive: TableHandle, metastore: HiveMetastore, template: Template
) -> None:
    base = hive.load()
    other = append(PointerHandle(_Pointer(template.metadata)))

    def write_without_lock() -> None:
        parameters, folder = metastore.tables["n", "t"]
        metastore.tables["n", "t"] = ({**parameters, "metadata_location": other.location}, folder)

    metastore.before_alter = write_without_lock
    assert _expire(hive, base).status is CommitStatus.CONFLICT
    assert hive.load().location == other.location


def test_a_hive_lock_is_respected(hive: TableHandle, metastore: HiveMetastore) -> None:
    metastore.locks[99] = ("n", "t")
    base = hive.load()
    files = metadata_files(base)
    with pytest.raises(LakesweepError, match="holds the lock"):
        _expire(hive, base)
    assert metadata_files(base) == files
    assert hive.load().location == base.location


def test_hive_tables_with_hashed_metadata_are_refused(
    hive: TableHandle, metastore: HiveMetastore
) -> None:
    parameters, folder = metastore.tables["n", "t"]
    metastore.tables["n", "t"] = ({**parameters, "metadata_hash": "x"}, folder)
    with pytest.raises(RefusedError, match="encrypted"):
        _expire(hive)


def test_glue_keeps_the_whole_table(template: Template, moto: S3Server) -> None:
    with kinds.glue(template, moto) as table:
        assert isinstance(table, PointerHandle)
        pointer = table.pointer
        assert isinstance(pointer, GluePointer)
        sent: list[dict[str, Any]] = []
        pointer.adapter.catalog.glue.meta.events.register(
            "provide-client-params.glue.UpdateTable", lambda params, **_: sent.append(params)
        )
        assert _expire(table).status is CommitStatus.COMMITTED
        glue = client("glue", moto)
        now = glue.get_table(DatabaseName=pointer.table[0], Name="t")["Table"]
        assert (now["Description"], now["Owner"]) == ("kept", "kept")
        assert now["StorageDescriptor"]["Columns"][0]["Comment"] == "kept"
        assert now["Parameters"]["x"] == "kept"
        assert [(each["VersionId"], each["SkipArchive"]) for each in sent] == [("1", True)]
        assert table.expired_by(table.load()) is None


def test_compressed_metadata_stays_compressed(template: Template) -> None:
    _, handle = _handle(template)
    base = handle.load()
    codec = {"write.metadata.compression-codec": "gzip"}
    outcome = handle.commit(base, MetadataChange.of(base.document, [SetProperties(updates=codec)]))
    assert outcome.table is not None
    path = outcome.table.location
    assert path.endswith(".gz.metadata.json")
    written = gzip.decompress(Path(path.removeprefix("file://")).read_bytes())
    assert json.loads(written)["properties"] == base.document.properties() | codec
    assert ids(handle.load()) == ids(base)


def test_a_folder_of_versions_moves_its_hint(template: Template, tmp_path: Path) -> None:
    with kinds.folder(template, tmp_path) as table:
        outcome = _expire(table)
        assert outcome.table is not None
        metadata = Path(outcome.table.location.removeprefix("file://"))
        assert metadata.name == "v5.metadata.json"
        assert (metadata.parent / "version-hint.text").read_text() == "5"


def test_a_folder_in_a_bucket_has_no_safe_swap(template: Template) -> None:
    stores = Stores()
    data = Path(template.metadata.removeprefix("file://")).read_bytes()
    store = stores.open("memory://hadoop/")
    store.write("t/metadata/v1.metadata.json", data)
    store.write("t/metadata/version-hint.text", b"1")
    tables = IcebergTables(stores, {})
    with pytest.raises(RefusedError, match="no catalog"):
        _expire(open_table(tables, "memory://hadoop/t"))
    sure = open_table(tables, "memory://hadoop/t", sole_writer=True)
    assert _expire(sure).status is CommitStatus.COMMITTED
    assert store.read("t/metadata/version-hint.text") == b"2"
    taken = sure.load()
    store.write("t/metadata/v3.gz.metadata.json", b"another writer")
    change = MetadataChange.of(taken.document, [SetProperties(updates={"a": "b"})])
    assert sure.commit(taken, change).status is CommitStatus.CONFLICT


class _Interloper:
    """A store in which somebody else creates each new object a moment before we do."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write_new(self, key: str, data: bytes) -> None:
        self._store.write(key, data.replace(b"main", b"niam"))
        self._store.write_new(key, data)


def test_the_number_of_a_folder_is_taken_at_the_last_moment(template: Template) -> None:
    plain = Stores().open("memory://interloper/")
    data = Path(template.metadata.removeprefix("file://")).read_bytes()
    plain.write("t/metadata/v1.metadata.json", data)
    plain.write("t/metadata/version-hint.text", b"1")
    stores = Stores(replace={"memory://interloper": _Interloper(plain)})
    tables = IcebergTables(stores, {})
    table = open_table(tables, "memory://interloper/t", sole_writer=True)
    assert _expire(table).status is CommitStatus.CONFLICT
    assert b"niam" in plain.read("t/metadata/v2.metadata.json")
    assert plain.read("t/metadata/version-hint.text") == b"1"


def test_a_metadata_file_gets_a_successor_where_the_user_says(
    template: Template, tmp_path: Path
) -> None:
    tables = IcebergTables(Stores(), {})
    output = f"file://{tmp_path}/new.metadata.json"
    table = open_table(tables, template.metadata, metadata_out=output)
    assert _expire(table).status is CommitStatus.COMMITTED
    assert row_count(output) == 2 * kinds.SNAPSHOTS
    with pytest.raises(RefusedError, match="exists already"):
        _expire(table)
    beside = _expire(open_table(tables, template.metadata))
    assert beside.table is not None
    assert beside.table.location.rpartition("/")[0] == template.metadata.rpartition("/")[0]


def test_an_output_is_only_for_metadata_files(template: Template, tmp_path: Path) -> None:
    tables = IcebergTables(Stores(), {})
    with kinds.folder(template, tmp_path) as table, pytest.raises(UsageError):
        open_table(tables, table.name, metadata_out="x")
    with pytest.raises(UsageError, match="has a catalog"):
        open_table(tables, "c.n.t", metadata_out="x")
