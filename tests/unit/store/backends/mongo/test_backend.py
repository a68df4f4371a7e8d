from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakesweep.errors import (
    DamagedRowError,
    LakesweepError,
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.mongo.backend import MongoBackend
from lakesweep.store.backends.mongo.database import row_document
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from tests.scripted_mongo import HANGS_UP, ScriptedMongo, found, refused, scripted_mongo

ROW = ObjectRow(1, 0, "thing", 5, 7, b"value")
REFERENCE = Reference("main", None, 0, 5)
MOVED = Reference("main", 1, 1, 5)
SCHEMA = found({"_id": "schema", "version": 1})
DONE = {"ok": 1, "n": 1, "nModified": 1}

WRITES: dict[str, tuple[str, Callable[[Backend], object]]] = {
    "insert_reference": ("insert", lambda to: to.insert_reference("acme", REFERENCE)),
    "insert_references": ("insert", lambda to: to.insert_references("acme", [REFERENCE])),
    "update_reference": ("update", lambda to: to.update_reference("acme", MOVED, REFERENCE)),
    "delete_reference": ("delete", lambda to: to.delete_reference("acme", REFERENCE)),
    "write": ("update", lambda to: to.write("acme", [ROW])),
    "delete": ("delete", lambda to: to.delete("acme", [ROW.key])),
    "insert_row": ("insert", lambda to: to.insert_row("acme", ROW)),
    "update_row": ("update", lambda to: to.update_row("acme", ROW, 6)),
    "delete_row": ("delete", lambda to: to.delete_row("acme", ROW.key, 7)),
    "delete_realm": ("delete", lambda to: to.delete_realm("acme")),
}
READS: dict[str, Callable[[Backend], object]] = {
    "fetch_references": lambda to: to.fetch_references("acme", ["main"]),
    "fetch": lambda to: to.fetch("acme", [RowKey(1)]),
    "realms": lambda to: to.realms(),
    "scan_references": lambda to: list(to.scan_references("acme")),
    "scan_rows": lambda to: list(to.scan_rows("acme")),
    "split_rows": lambda to: to.split_rows("acme", 2),
}
each_write = pytest.mark.parametrize(("command", "write"), WRITES.values(), ids=WRITES)
each_read = pytest.mark.parametrize("read", READS.values(), ids=READS)


@pytest.fixture
def server() -> Iterator[ScriptedMongo]:
    """Its database holds a store and nothing else, and every write succeeds."""
    with scripted_mongo() as server:
        server.play("find", SCHEMA, found())
        for command in ("insert", "update", "delete"):
            server.play(command, DONE)
        yield server


@pytest.fixture
def backend(server: ScriptedMongo) -> Iterator[Backend]:
    backend = MongoBackend(server.url)
    yield backend
    backend.close()


def _failing(backend: Backend, call: Callable[[Backend], object]) -> LakesweepError:
    with pytest.raises(LakesweepError) as caught:
        call(backend)
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://",
        "mongodb://user:secret@host",
        "mongodb://user:secret/secret@host/lake",
        "mongodb://user:12/secret@127.0.0.1:9/lake",
        "mongodb://user:secret@secret@host/lake",
        "mongodb://user:secret?secret@host/lake",
        "mongodb://user:secret:secret@host/lake",
        "mongodb://user:secret@host:port/lake",
        "mongodb://user:secret@host/la ke",
        "mongodb://user:secret@host/lake?sekret=1",
        "mongodb://user:secret@host/lake?authMechanism=secret&w=1",
        "mongodb://user@host/lake",
    ],
)
def test_a_url_that_cannot_work_is_refused_without_telling_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        MongoBackend(url)
    assert caught.value.hint.startswith("mongodb://")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="Unknown option: readconcern"):
        MongoBackend("mongodb://user:secret@host/lake?readconcern=majority")


def test_a_server_that_is_not_there_is_an_error_and_nothing_is_changed() -> None:
    backend = MongoBackend(
        "mongodb://user:secret@127.0.0.1:1/lake?serverSelectionTimeoutMS=50&retryWrites=true"
    )
    read, (_, write) = READS["fetch"], WRITES["update_reference"]
    for call in (read, write, lambda to: to.init_schema()):
        error = _failing(backend, call)
        assert type(error) is UnreachableError
        assert (
            str(error) == "mongodb://127.0.0.1:1/lake: 127.0.0.1:1: [Errno 111] Connection refused"
        )
    backend.close()


def test_a_wrong_password_is_told_without_the_password(server: ScriptedMongo) -> None:
    server.play("saslStart", refused(18, "Authentication failed."))
    backend = MongoBackend(server.url.replace("//", "//user:secret@"))
    error = _failing(backend, lambda to: to.check_schema())
    assert type(error) is StoreError
    assert str(error) == f"{server.url}: Authentication failed."
    assert "password" in error.hint
    backend.close()


@each_read
def test_a_read_without_a_store_says_how_to_get_one(
    server: ScriptedMongo, backend: Backend, read: Callable[[Backend], object]
) -> None:
    server.play("find", found())
    error = _failing(backend, read)
    assert type(error) is SchemaError
    assert error.hint == "lakesweep store init creates the tables"


@each_write
def test_a_write_without_a_store_creates_none(
    server: ScriptedMongo, backend: Backend, command: str, write: Callable[[Backend], object]
) -> None:
    server.play("find", found())
    assert type(_failing(backend, write)) is SchemaError
    assert server.asked == ["find"]


def test_a_newer_store_is_refused_and_left_alone(server: ScriptedMongo, backend: Backend) -> None:
    server.play("find", found({"_id": "schema", "version": 2}))
    for call in (backend.check_schema, backend.init_schema, backend.realms):
        with pytest.raises(SchemaError, match="version 2, this program understands 1"):
            call()
    assert set(server.asked) == {"find"}


def test_a_store_that_became_newer_meanwhile_is_refused(
    server: ScriptedMongo, backend: Backend
) -> None:
    server.play("find", found(), found({"_id": "schema", "version": 2}))
    server.play("create", refused(48, "it exists"))
    taken = {"index": 0, "code": 11000, "errmsg": "duplicate key"}
    server.play("insert", {"ok": 1, "n": 0, "writeErrors": [taken]})
    with pytest.raises(SchemaError, match="version 2"):
        backend.init_schema()


@each_write
def test_a_write_whose_answer_is_lost_is_unknown_and_sent_once(
    server: ScriptedMongo, backend: Backend, command: str, write: Callable[[Backend], object]
) -> None:
    server.play(command, HANGS_UP)
    assert type(_failing(backend, write)) is UnknownOutcomeError
    assert server.asked.count(command) == 1


@each_write
def test_a_write_that_too_few_servers_confirm_is_unknown(
    server: ScriptedMongo, backend: Backend, command: str, write: Callable[[Backend], object]
) -> None:
    late = {"code": 64, "errmsg": "waiting for replication timed out", "errInfo": {}}
    server.play(command, {**DONE, "writeConcernError": late})
    assert type(_failing(backend, write)) is UnknownOutcomeError


@each_read
def test_a_read_without_an_answer_changed_nothing(
    server: ScriptedMongo, backend: Backend, read: Callable[[Backend], object]
) -> None:
    server.play("find", SCHEMA, HANGS_UP)
    assert type(_failing(backend, read)) is UnreachableError


@pytest.mark.parametrize("call", ["update_row", "insert_references", "write"])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (10107, UnreachableError),  # not the primary
        (11602, UnknownOutcomeError),  # no longer the primary
        (112, UnreachableError),  # a conflict with another write
        (13, StoreError),  # no right
        (50, UnknownOutcomeError),  # took too long
        (26, SchemaError),  # no such collection
        (31337, UnknownOutcomeError),  # of a later server
    ],
)
def test_a_refused_write_is_certain_only_where_the_server_is(
    server: ScriptedMongo, backend: Backend, call: str, code: int, kind: type[StoreError]
) -> None:
    command, write = WRITES[call]
    server.play(command, refused(code))
    assert type(_failing(backend, write)) is kind
    assert server.asked.count(command) == 1


def test_one_failed_row_among_many_is_not_taken_for_a_duplicate(
    server: ScriptedMongo, backend: Backend
) -> None:
    errors = [{"index": n, "code": code, "errmsg": ""} for n, code in enumerate((11000, 13))]
    server.play("insert", {"ok": 1, "n": 0, "writeErrors": errors})
    error = _failing(backend, lambda to: to.insert_references("acme", [REFERENCE, MOVED]))
    assert type(error) is UnknownOutcomeError


@each_write
def test_a_write_waits_for_the_majority_whatever_the_url_says(
    server: ScriptedMongo, command: str, write: Callable[[Backend], object]
) -> None:
    backend = MongoBackend(f"{server.url}?w=0&retryWrites=true&readPreference=secondary")
    write(backend)
    backend.close()
    sent = [each for each in server.commands if command in each]
    assert {each["writeConcern"]["w"] for each in sent} == {"majority"}
    assert not any("txnNumber" in each for each in sent)


def test_references_are_read_from_a_primary_that_makes_sure_to_be_one(
    server: ScriptedMongo,
) -> None:
    backend = MongoBackend(f"{server.url}?readPreference=secondary&readConcernLevel=local")
    backend.fetch_references("acme", ["main"])
    backend.fetch("acme", [RowKey(1)])
    backend.close()
    asked = {each["find"]: each["readConcern"]["level"] for each in server.commands}
    assert asked["lakesweep_references"] == "linearizable"
    assert asked["lakesweep_objects"] == "majority"
    assert not any("$readPreference" in each for each in server.commands)


def test_a_batch_of_rows_is_one_request(server: ScriptedMongo, backend: Backend) -> None:
    rows = [ROW._replace(id=number) for number in range(1_000)]
    backend.write("acme", rows)
    backend.fetch("acme", [row.key for row in rows])
    backend.delete("acme", [row.key for row in rows])
    assert server.asked[1:] == ["update", "find", "delete"]


@pytest.mark.parametrize("change", [{"type": None}, {"created_at": "x"}, {"_id": None}])
def test_a_damaged_row_is_told(
    server: ScriptedMongo, backend: Backend, change: dict[str, Any]
) -> None:
    document = row_document("acme", ROW) | change
    found_row = {name: value for name, value in document.items() if value is not None}
    server.play("find", SCHEMA, found(found_row))
    with pytest.raises(DamagedRowError, match="not written by lakesweep"):
        backend.fetch("acme", [ROW.key])


def test_a_server_too_old_for_the_driver_is_an_error(server: ScriptedMongo) -> None:
    server.wire_version = 1
    backend = MongoBackend(server.url)
    error = _failing(backend, lambda to: to.check_schema())
    assert type(error) is StoreError
    assert "wire version" in str(error)
    backend.close()


def test_without_the_driver_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pymongo'] = None\n"
        "from lakesweep.errors import ConfigError\n"
        "from lakesweep.store.backends.urls import open_backend\n"
        "try: open_backend('mongodb://host/lake')\n"
        "except ConfigError as error: print(error.hint)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout == b"pip install 'lakesweep[mongodb]'\n"
