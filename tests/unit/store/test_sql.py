from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lakesweep.errors import SchemaError, StoreError, UnreachableError, UsageError
from lakesweep.store.backend import ObjectRow, Reference, RowKey
from lakesweep.store.backends import connection, dialects
from lakesweep.store.backends.sql import SqlBackend

ROW = ObjectRow(1, 0, "thing", 5, None, b"value")
REFERENCE = Reference("main", None, 0, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def _open(path: Path) -> SqlBackend:
    return SqlBackend(f"sqlite:///{path}")


def _init(path: Path) -> SqlBackend:
    backend = _open(path)
    backend.init_schema()
    return backend


def test_rows_outlive_the_process(path: Path) -> None:
    first = _init(path)
    assert first.capabilities.durable
    first.insert_reference("acme", REFERENCE)
    first.write("acme", [ROW])
    first.close()
    second = _open(path)
    second.check_schema()
    assert second.fetch_references("acme", ["main"]) == {"main": REFERENCE}
    assert second.fetch("acme", [RowKey(1)]) == {RowKey(1): ROW}
    second.close()


def test_a_database_without_tables_says_how_to_get_them(path: Path) -> None:
    backend = _open(path)
    for call in (backend.check_schema, backend.realms, lambda: backend.write("acme", [ROW])):
        with pytest.raises(SchemaError, match="no such table") as caught:
            call()
        assert caught.value.hint == "lakesweep store init creates the tables"
    backend.close()


def test_newer_tables_are_refused_and_left_alone(path: Path) -> None:
    _init(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("update lakesweep_schema set version = 2")
    backend = _open(path)
    for call in (backend.check_schema, backend.init_schema):
        with pytest.raises(SchemaError, match="version 2, this program understands 1"):
            call()
    backend.close()


def test_tables_that_were_not_finished_are_refused(path: Path) -> None:
    _init(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("delete from lakesweep_schema")
    backend = _open(path)
    with pytest.raises(SchemaError, match="not created completely"):
        backend.check_schema()
    backend.init_schema()
    backend.check_schema()
    backend.close()


def test_a_file_that_is_no_database_is_an_error(path: Path) -> None:
    path.write_bytes(b"something else entirely, and long enough" * 50)
    backend = _open(path)
    with pytest.raises(StoreError, match="not a database"):
        backend.init_schema()
    backend.close()
    assert path.read_bytes().startswith(b"something else")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file"):
        _open(tmp_path / "missing" / "store.db").check_schema()


def test_a_database_that_may_not_be_written_is_an_error(path: Path) -> None:
    _init(path).close()
    backend = SqlBackend(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(StoreError, match="readonly database"):
        backend.insert_reference("acme", REFERENCE)
    backend.close()


def test_a_database_that_stays_busy_was_not_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = dialects.DIALECTS["sqlite"]
    hasty = dialects.Dialect(
        begin=patient.begin,
        insert_new=patient.insert_new,
        upsert=patient.upsert,
        failure=patient.failure,
        connect_args={"timeout": 0.01},
    )
    _init(path).close()
    monkeypatch.setattr(connection, "DIALECTS", {"sqlite": hasty})
    backend = _open(path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("begin immediate")
    for call in (
        lambda: backend.insert_reference("acme", REFERENCE),
        lambda: backend.write("acme", [ROW]),
    ):
        with pytest.raises(UnreachableError, match="locked"):
            call()
    assert list(backend.realms()) == []
    raw.execute("rollback")
    raw.close()
    assert backend.insert_reference("acme", REFERENCE)
    backend.close()


@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://x", "oracle://user:secret@host/db"])
def test_a_url_of_no_known_database_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        SqlBackend(url)
    assert "sqlite:///" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_failed_batch_leaves_no_transaction_open(path: Path) -> None:
    backend = _init(path)
    nameless = ROW._replace(type=None)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="NOT NULL"):
        backend.write("acme", [ROW._replace(id=7), nameless])
    assert list(backend.scan_rows("acme")) == []
    backend.write("acme", [ROW])
    backend.close()


@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_INTERRUPT", "SQLITE_PROTOCOL"])
def test_what_may_have_happened_is_unknown(name: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = name
    kind = dialects.DIALECTS["sqlite"].failure(error)
    assert kind.__name__ == "UnknownOutcomeError"
