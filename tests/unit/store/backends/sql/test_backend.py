"""SQLite as a database of the store: what is kept, and what each trouble is called."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import pytest

from lakesweep.errors import (
    DamagedRowError,
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
)
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.backends.sql.dialect import FULL
from lakesweep.store.backends.sql.sqlite import Sqlite

ROW = ObjectRow(1, 0, "thing", 5, None, b"value")
REFERENCE = Reference("main", None, 0, 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[..., SqlBackend]]:
    opened = []

    def open_it(file: Path = path, options: str = "") -> SqlBackend:
        opened.append(SqlBackend(f"sqlite:///{file}{options}"))
        return opened[-1]

    yield open_it
    for backend in opened:
        backend.close()


@pytest.fixture
def store(open_store: Callable[[], SqlBackend]) -> SqlBackend:
    backend = open_store()
    backend.init_schema()
    return backend


def _writes(backend: SqlBackend) -> list[Callable[[], object]]:
    return [
        lambda: backend.insert_reference("acme", REFERENCE),
        lambda: backend.insert_references("acme", [REFERENCE]),
        lambda: backend.write("acme", [ROW]),
        lambda: backend.insert_row("acme", ROW),
    ]


def test_rows_outlive_the_process(
    store: SqlBackend, open_store: Callable[..., SqlBackend], path: Path
) -> None:
    assert store.capabilities.durable
    store.insert_reference("acme", REFERENCE)
    store.write("acme", [ROW])
    store.close()
    second = open_store()
    second.check_schema()
    assert second.fetch_references("acme", ["main"]) == {"main": REFERENCE}
    assert second.fetch("acme", [RowKey(1)]) == {RowKey(1): ROW}


def test_a_database_without_tables_says_how_to_get_them(
    open_store: Callable[..., SqlBackend], path: Path
) -> None:
    path.touch()
    backend = open_store()
    for call in (backend.check_schema, backend.realms, lambda: backend.write("acme", [ROW])):
        with pytest.raises(SchemaError, match="no such table") as caught:
            call()
        assert caught.value.hint == "lakesweep store init creates the tables"


def test_a_file_that_is_not_there_is_not_created_by_whoever_looks(
    open_store: Callable[..., SqlBackend], tmp_path: Path
) -> None:
    for file in (tmp_path / "store.db", tmp_path / "folder" / "store.db"):
        backend = open_store(file)
        for call in (backend.check_schema, *_writes(backend)):
            with pytest.raises(SchemaError, match="unable to open database file") as caught:
                call()
            assert caught.value.hint == "lakesweep store init creates the file and its tables"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_file_is_created_with_the_tables(
    open_store: Callable[..., SqlBackend], tmp_path: Path
) -> None:
    backend = open_store(tmp_path / "a" / "b c%" / "store.db")
    backend.init_schema()
    backend.check_schema()
    assert (tmp_path / "a" / "b c%" / "store.db").is_file()


def test_a_folder_that_cannot_be_created_is_an_error(
    open_store: Callable[..., SqlBackend], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    backend = open_store(tmp_path / "file" / "store.db")
    with pytest.raises(
        StoreError, match=r"file/store\.db: (Not a directory|File exists)"
    ) as caught:
        backend.init_schema()
    assert caught.value.hint == "use a file in a writable folder"


def test_tables_can_be_created_while_others_read(
    open_store: Callable[..., SqlBackend], path: Path
) -> None:
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("create table other (value)")
    reader.execute("begin")
    reader.execute("select * from other").fetchall()
    Timer(0.2, reader.execute, ["rollback"]).start()
    backend = open_store()
    backend.init_schema()
    backend.check_schema()
    reader.close()


def test_newer_tables_are_refused_and_left_alone(
    store: SqlBackend, open_store: Callable[..., SqlBackend], path: Path
) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("update lakesweep_schema set version = 2")
    backend = open_store()
    for call in (backend.check_schema, backend.init_schema):
        with pytest.raises(SchemaError, match="version 2, this program understands 1") as caught:
            call()
        assert caught.value.hint == "upgrade Lakesweep"
    assert raw.execute("select version from lakesweep_schema").fetchall() == [(2,)]
    raw.close()


def test_tables_that_were_not_finished_are_refused(store: SqlBackend, path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("delete from lakesweep_schema")
    raw.close()
    with pytest.raises(SchemaError, match="not created completely"):
        store.check_schema()
    store.init_schema()
    store.check_schema()


def test_a_file_that_is_no_database_is_an_error(
    open_store: Callable[..., SqlBackend], path: Path
) -> None:
    content = b"something else entirely, and long enough" * 50
    path.write_bytes(content)
    backend = open_store()
    for call in (backend.init_schema, backend.check_schema, *_writes(backend)):
        with pytest.raises(StoreError, match="not a database") as caught:
            call()
        assert caught.value.hint == "use another file, or restore this one from a backup"
    assert path.read_bytes() == content


def test_a_database_that_may_not_be_written_is_an_error(
    store: SqlBackend, open_store: Callable[..., SqlBackend], path: Path
) -> None:
    backend = open_store(Path(f"file:{path}"), "?mode=ro&uri=true")
    for call in _writes(backend):
        with pytest.raises(StoreError, match="readonly database") as caught:
            call()
        assert caught.value.hint == "give this user write access to the file and its folder"
    assert list(store.realms()) == []


def test_a_file_that_is_there_but_cannot_be_opened_is_not_taken_for_missing(
    store: SqlBackend, open_store: Callable[..., SqlBackend], path: Path
) -> None:
    store.close()
    path.with_name(f"{path.name}-wal").mkdir()  # as if no file could be made in the folder
    backend = open_store()
    for call in (backend.check_schema, backend.init_schema, *_writes(backend)):
        with pytest.raises(StoreError, match="unable to open") as caught:
            call()
        assert caught.value.hint == "let this user read and write the file and its folder"


def test_a_database_that_stays_busy_was_not_changed(
    store: SqlBackend, open_store: Callable[..., SqlBackend], path: Path
) -> None:
    hasty = open_store(path, "?timeout=0.01")
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("begin immediate")
    for call in _writes(hasty):
        with pytest.raises(UnreachableError, match="locked"):
            call()
    assert list(hasty.realms()) == []
    raw.execute("rollback")
    raw.close()
    assert hasty.insert_reference("acme", REFERENCE)


_FILL = """
import resource, signal, sys
from lakesweep.errors import StoreError
from lakesweep.store.backends.backend import ObjectRow
from lakesweep.store.backends.sql.backend import SqlBackend

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
backend = SqlBackend(sys.argv[1])
try:
    backend.write("acme", [ObjectRow(2, 0, "thing", 5, None, bytes(350_000))])
except StoreError as error:
    print(type(error).__name__, error.hint, sep=": ")
"""


def test_a_disk_without_room_is_an_error_and_the_database_stays_whole(
    store: SqlBackend, path: Path
) -> None:
    store.write("acme", [ROW])
    command = [sys.executable, "-c", _FILL, f"sqlite:///{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        done.stdout == "StoreError: free disk space for the database, then run the command again\n"
    )
    assert [head.id for head in store.scan_rows("acme")] == [1]
    store.write("acme", [ROW._replace(id=3)])


@pytest.mark.parametrize(
    ("damage", "named"), [("recent = x'0102'", "'main'"), (r"name = x'ff'", r"\\xff")]
)
def test_a_damaged_reference_is_named(
    store: SqlBackend, path: Path, damage: str, named: str
) -> None:
    store.insert_reference("acme", REFERENCE)
    with sqlite3.connect(path) as raw:
        raw.execute(f"update lakesweep_references set {damage}")
    raw.close()
    with pytest.raises(DamagedRowError) as caught:
        list(store.scan_references("acme"))
    assert named in caught.value.message


def test_a_failed_batch_leaves_no_transaction_open(store: SqlBackend) -> None:
    nameless = ROW._replace(type=None)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="NOT NULL"):
        store.write("acme", [ROW._replace(id=7), nameless])
    assert list(store.scan_rows("acme")) == []
    store.write("acme", [ROW])


def test_a_full_database_was_not_changed(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("pragma max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as caught:
        raw.executescript("create table a (b); create table c (d)")
    raw.close()
    assert Sqlite().failed(caught.value) == FULL


@pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_INTERRUPT", "SQLITE_PROTOCOL"])
def test_what_may_have_happened_is_unknown(name: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = name
    assert Sqlite().failed(error).kind is UnknownOutcomeError
