from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import (
    ConfigError,
    DamagedRowError,
    LakesweepError,
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.dynamo.backend import DynamoBackend
from lakesweep.store.backends.dynamo.client import DynamoAddress, parse_address
from lakesweep.store.backends.dynamo.table import row_item, row_key
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from tests.moments import NOON
from tests.scripted import ScriptedServer, http, scripted_server

ROW = ObjectRow(1, 0, "thing", 5, 7, b"value")
REFERENCE = Reference("main", None, 0, 5)
MOVED = Reference("main", 1, 1, 5)

CONDITIONAL: dict[str, Callable[[Backend], object]] = {
    "insert_reference": lambda to: to.insert_reference("acme", REFERENCE),
    "update_reference": lambda to: to.update_reference("acme", MOVED, REFERENCE),
    "delete_reference": lambda to: to.delete_reference("acme", REFERENCE),
    "insert_row": lambda to: to.insert_row("acme", ROW),
    "update_row": lambda to: to.update_row("acme", ROW, 6),
    "delete_row": lambda to: to.delete_row("acme", ROW.key, 7),
}
READS: dict[str, Callable[[Backend], object]] = {
    "fetch_references": lambda to: to.fetch_references("acme", ["main"]),
    "fetch": lambda to: to.fetch("acme", [RowKey(1)]),
    "realms": lambda to: to.realms(),
    "scan_references": lambda to: list(to.scan_references("acme")),
    "scan_rows": lambda to: list(to.scan_rows("acme")),
    "split_rows": lambda to: to.split_rows("acme", 2),
    "check_schema": lambda to: to.check_schema(),
}
each_conditional = pytest.mark.parametrize("write", CONDITIONAL.values(), ids=CONDITIONAL)
each_read = pytest.mark.parametrize("read", READS.values(), ids=READS)


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Nothing of this machine's own AWS settings."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def backend(server: ScriptedServer, clock: ManualClock) -> Iterator[Backend]:
    """It has written to the realm before, so that the realm is noted."""
    url = f"dynamodb://lake?endpoint={server.endpoint}"
    backend = DynamoBackend(url, clock=clock, random=Random(7))
    server.play(_answer(), _answer())
    assert backend.insert_row("acme", ROW)
    server.requests.clear()
    yield backend
    backend.close()


def _answer(**body: Any) -> bytes:
    return http(200, json.dumps(body, default=_base64).encode(), {"x-amzn-RequestId": "1"})


def _error(code: str, status: int = 400, message: str = "no") -> bytes:
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}
    return http(status, json.dumps(body).encode(), {"x-amzn-RequestId": "1"})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _asked(server: ScriptedServer) -> list[str]:
    """The operations that were asked for."""
    targets = (
        re.search(rb"X-Amz-Target: DynamoDB_20120810.(\w+)", each) for each in server.requests
    )
    return [target[1].decode() for target in targets if target]


def _bodies(server: ScriptedServer) -> list[Any]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]


def _failing(backend: Backend, call: Callable[[Backend], object]) -> LakesweepError:
    with pytest.raises(LakesweepError) as caught:
        call(backend)
    return caught.value


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dynamodb://", DynamoAddress("lakesweep")),
        ("dynamodb://Lake_1.x-y", DynamoAddress("Lake_1.x-y")),
        ("dynamodb://lake/?region=eu-west-1", DynamoAddress("lake", region="eu-west-1")),
        (
            "dynamodb://lake?endpoint=http://127.0.0.1:8000&profile=me",
            DynamoAddress("lake", endpoint="http://127.0.0.1:8000", profile="me"),
        ),
    ],
)
def test_a_url_names_a_table_and_where_it_is(url: str, address: DynamoAddress) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://ab",
        "dynamodb://la ke",
        "dynamodb://lake/more",
        "dynamodb://lake?zone=x",
        "dynamodb://lake?region=",
        "dynamodb://key:secret@lake",
        "dynamodb://key:secr/et@lake",
        "dynamodb://lake?endpoint=http://key:secret@host",
    ],
)
def test_a_url_that_names_no_table_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        DynamoBackend(url)
    assert "secr" not in str(caught.value)


def test_missing_credentials_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ConfigError, match="dynamodb://lake: no credentials were found") as caught:
        DynamoBackend("dynamodb://lake")
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_a_missing_region_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ConfigError, match="region") as caught:
        DynamoBackend("dynamodb://lake")
    assert "AWS_REGION" in caught.value.hint


@pytest.mark.parametrize(
    ("option", "reason"),
    [("profile=nobody", "nobody"), ("endpoint=127.0.0.1", "127.0.0.1"), ("region=a b", "a b")],
)
def test_a_wrong_option_is_told(option: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        DynamoBackend(f"dynamodb://lake?{option}")


def test_a_server_that_is_not_there_is_an_error_and_nothing_is_changed() -> None:
    backend = DynamoBackend("dynamodb://lake?endpoint=http://127.0.0.1:1")
    for call in (READS["check_schema"], CONDITIONAL["update_reference"]):
        error = _failing(backend, call)
        assert type(error) is UnreachableError
        assert "127.0.0.1:1" in str(error)
    backend.close()


@each_read
def test_a_missing_table_says_how_to_get_one(
    server: ScriptedServer, backend: Backend, read: Callable[[Backend], object]
) -> None:
    server.play(_error("ResourceNotFoundException"))
    error = _failing(backend, read)
    assert type(error) is SchemaError
    assert error.hint == "lakesweep store init creates the tables"


def test_a_table_that_was_not_finished_is_refused(server: ScriptedServer, backend: Backend) -> None:
    server.play(_answer())
    with pytest.raises(SchemaError, match="not created completely"):
        backend.check_schema()


TABLE = {
    "TableStatus": "ACTIVE",
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "B"},
        {"AttributeName": "sk", "AttributeType": "B"},
    ],
}


def _version(number: int) -> bytes:
    return _answer(Item={"version": {"N": str(number)}})


def test_newer_tables_are_refused_and_left_alone(server: ScriptedServer, backend: Backend) -> None:
    server.play(*[_answer(Table=TABLE)] * 2, _version(2), _version(2))
    for call in (backend.init_schema, backend.check_schema):
        with pytest.raises(SchemaError, match="version 2, this program understands 1"):
            call()
    assert _asked(server) == ["DescribeTable", "DescribeTable", "GetItem", "GetItem"]


@pytest.mark.parametrize(
    "other",
    [
        {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]},
        {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]},
    ],
)
def test_a_table_of_another_program_is_left_alone(
    server: ScriptedServer, backend: Backend, other: dict[str, Any]
) -> None:
    server.play(_answer(Table=TABLE | other))
    with pytest.raises(SchemaError, match="it is used for something else"):
        backend.init_schema()
    assert _asked(server) == ["DescribeTable"]


def test_a_table_is_used_when_it_is_ready(
    server: ScriptedServer, backend: Backend, clock: ManualClock
) -> None:
    missing, creating = _error("ResourceNotFoundException"), {**TABLE, "TableStatus": "CREATING"}
    server.play(missing, _error("ResourceInUseException"), missing, _answer(Table=creating))
    server.play(_answer(Table=TABLE), _answer(), _answer(), _version(1))
    backend.init_schema()
    assert _asked(server)[1] == "CreateTable"
    assert _asked(server)[-3:] == ["GetItem", "PutItem", "GetItem"]
    assert clock.monotonic() > 0


def test_a_table_that_never_gets_ready_is_given_up(
    server: ScriptedServer, backend: Backend
) -> None:
    server.play(*[_answer(Table={**TABLE, "TableStatus": "CREATING"})] * 2_000)
    with pytest.raises(UnreachableError, match="still being created"):
        backend.init_schema()


ANSWERS: dict[str, tuple[bytes, type[StoreError]]] = {
    "lost": (b"", UnknownOutcomeError),
    "internal": (_error("InternalServerError", 500), UnknownOutcomeError),
    "unavailable": (_error("ServiceUnavailable", 503), UnknownOutcomeError),
    "timeout": (_error("RequestTimeout", 408), UnknownOutcomeError),
    "portal": (http(200, b"<html>please log in</html>"), UnknownOutcomeError),
    "gateway": (http(502, b"<html>bad gateway</html>"), UnknownOutcomeError),
    "throttled": (_error("ThrottlingException"), UnreachableError),
    "over capacity": (_error("ProvisionedThroughputExceededException"), UnreachableError),
    "denied": (_error("AccessDeniedException"), StoreError),
    "invalid": (_error("ValidationException"), StoreError),
    "no table": (_error("ResourceNotFoundException"), SchemaError),
}


@pytest.mark.parametrize("call", ["update_reference", "delete_row"])
@pytest.mark.parametrize(("answer", "kind"), ANSWERS.values(), ids=ANSWERS)
def test_a_conditional_write_is_sent_once_whatever_comes_back(
    server: ScriptedServer, backend: Backend, call: str, answer: bytes, kind: type[StoreError]
) -> None:
    server.play(answer)
    assert type(_failing(backend, CONDITIONAL[call])) is kind
    assert len(server.requests) == 1


@each_conditional
def test_a_condition_that_does_not_hold_is_a_no(
    server: ScriptedServer, backend: Backend, write: Callable[[Backend], object]
) -> None:
    server.play(_error("ConditionalCheckFailedException"))
    assert write(backend) is False


def test_a_missing_right_is_told_with_what_to_check(
    server: ScriptedServer, backend: Backend
) -> None:
    server.play(_error("UnrecognizedClientException", message="The security token is invalid."))
    error = _failing(backend, lambda to: to.check_schema())
    assert str(error) == "dynamodb://lake: The security token is invalid."
    assert error.hint.startswith("check the credentials")


@each_read
def test_a_read_without_an_answer_changed_nothing(
    server: ScriptedServer, backend: Backend, read: Callable[[Backend], object]
) -> None:
    server.play(*[http(200, b"<html>please log in</html>")] * 3)
    assert type(_failing(backend, read)) is UnreachableError


@each_read
def test_every_read_is_consistent(
    server: ScriptedServer, backend: Backend, read: Callable[[Backend], object]
) -> None:
    item = {"version": {"N": "1"}}
    answer = _answer(Items=[], Item=item, Responses={}, UnprocessedKeys={})
    server.play(answer, answer)
    read(backend)
    for body in _bodies(server):
        assert body.get("RequestItems", {}).get("lake", body)["ConsistentRead"] is True


def test_rows_that_the_table_puts_off_are_written_again(
    server: ScriptedServer, backend: Backend, clock: ManualClock
) -> None:
    rows = [ROW._replace(id=number) for number in range(3)]
    puts = [{"PutRequest": {"Item": row_item("acme", row)}} for row in rows]
    for left in (puts, puts[1:], []):
        server.play(_answer(UnprocessedItems={"lake": left} if left else {}))
    backend.write("acme", rows)
    assert [len(body["RequestItems"]["lake"]) for body in _bodies(server)] == [3, 3, 2]
    assert clock.monotonic() > 0


def test_keys_that_the_table_puts_off_are_read_again(
    server: ScriptedServer, backend: Backend
) -> None:
    rows = [ROW._replace(id=number) for number in range(2)]
    items, keys = ([make(row) for row in rows] for make in (_item, _key))
    left = {"lake": {"Keys": keys[1:]}}
    server.play(_answer(Responses={"lake": items[:1]}, UnprocessedKeys=left))
    server.play(_answer(Responses={"lake": items[1:]}, UnprocessedKeys={}))
    assert backend.fetch("acme", [row.key for row in rows]) == {row.key: row for row in rows}


def _item(row: ObjectRow) -> Any:
    return row_item("acme", row)


def _key(row: ObjectRow) -> Any:
    return row_key("acme", row.key)


@pytest.mark.parametrize("call", ["write", "fetch"])
def test_a_table_that_puts_off_everything_is_given_up(
    server: ScriptedServer, backend: Backend, clock: ManualClock, call: str
) -> None:
    items = {"lake": [{"PutRequest": {"Item": _item(ROW)}}]}
    keys = {"lake": {"Keys": [_key(ROW)]}}
    server.play(*[_answer(UnprocessedItems=items, UnprocessedKeys=keys, Responses={})] * 200)
    calls: dict[str, Callable[[Backend], object]] = {
        "write": lambda to: to.write("acme", [ROW]),
        "fetch": lambda to: to.fetch("acme", [ROW.key]),
    }
    error = _failing(backend, calls[call])
    assert type(error) is UnreachableError
    assert str(error) == "dynamodb://lake: the table is throttling requests"
    assert 60 <= clock.monotonic() < 120


def test_a_realm_is_noted_before_its_first_row_and_once(
    server: ScriptedServer, backend: Backend
) -> None:
    server.play(_error("InternalServerError", 500), *[_answer()] * 4)
    backend.insert_reference("other", REFERENCE)
    backend.insert_row("other", ROW)
    assert _asked(server) == ["PutItem"] * 4
    notes = [body["Item"]["pk"]["B"] for body in _bodies(server)]
    assert [base64.b64decode(each) for each in notes] == [b"n", b"n", b"rother", b"oother"]


def test_a_realm_that_cannot_be_noted_is_not_written_to(
    server: ScriptedServer, backend: Backend
) -> None:
    server.play(_error("AccessDeniedException"))
    for write in (lambda to: to.write("other", [ROW]), lambda to: to.insert_row("other", ROW)):
        server.play(_error("AccessDeniedException"))
        _failing(backend, write)
    assert {base64.b64decode(body["Item"]["pk"]["B"]) for body in _bodies(server)} == {b"n"}


@pytest.mark.parametrize(
    "change", [{"type": None}, {"created_at": {"N": "x"}}, {"value": {"S": ""}}]
)
def test_a_damaged_row_is_told(
    server: ScriptedServer, backend: Backend, change: dict[str, Any]
) -> None:
    item = {name: value for name, value in (_item(ROW) | change).items() if value}
    server.play(_answer(Responses={"lake": [item]}, UnprocessedKeys={}))
    with pytest.raises(DamagedRowError, match="not written by lakesweep"):
        backend.fetch("acme", [ROW.key])


def test_a_realm_cannot_be_deleted_at_once(backend: Backend) -> None:
    assert not backend.capabilities.deletes_realms
    with pytest.raises(StoreError, match="cannot delete realm 'acme' in one call"):
        backend.delete_realm("acme")
