"""One DynamoDB table: its requests, with retries, and the rows of the store as its items.

    pk              sk                    what
    s               version               the version of the tables
    n               realm                 a realm that has, or had, rows
    r + realm       name                  a reference
    o + realm       id, part              a row of an object; both numbers big-endian

Keys are bytes: no text is changed in transit, and ids sort as numbers. A partition holds one kind
of row of one realm, so no realm can be mistaken for a prefix of another.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from lakesweep.clock import Clock
from lakesweep.errors import SchemaError, UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.dynamo.client import (
    CLIENT_ERRORS,
    DynamoAddress,
    code_of,
    find_account,
    make_client,
    translated,
)
from lakesweep.store.backends.rows import (
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    RowKey,
    detects_damage,
    pack_pointers,
    unpack_pointers,
)

#: The number of parallel requests for many rows.
WORKERS = 8
_TRIES = 3
_CREATE_SECONDS = 300.0
_POLL_SECONDS = 0.2
# How long to retry rows that the table defers, without any progress.
_PATIENCE_SECONDS = 60.0
_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
Item = dict[str, Any]
PARTITION = "pk"
SORT = "sk"
HEAD_ATTRIBUTES = (SORT, "type", "created_at", "token")
REFERENCE_STATE = ("pointer", "version", "created_at")
_KEY = struct.Struct(">qI")
_LAST_PART = 2**32 - 1
# Stands for "no pointer", since a condition must name a value. No id is negative.
_NO_POINTER = -1


def schema_key() -> Item:
    return _key(b"s", b"version")


def realms_partition() -> bytes:
    return b"n"


def realm_key(realm: str) -> Item:
    return _key(realms_partition(), realm.encode())


def references_partition(realm: str) -> bytes:
    return b"r" + realm.encode()


def reference_key(realm: str, name: str) -> Item:
    return _key(references_partition(realm), name.encode())


def rows_partition(realm: str) -> bytes:
    return b"o" + realm.encode()


def row_key(realm: str, key: RowKey) -> Item:
    return _key(rows_partition(realm), _KEY.pack(*key))


def sort_range(span: IdSpan) -> tuple[bytes, bytes]:
    """The first and the last possible sort key for ids in the span."""
    return _KEY.pack(span.first, 0), _KEY.pack(span.last, _LAST_PART)


def reference_item(realm: str, reference: Reference) -> Item:
    state = reference_state(reference)
    recent = {"B": pack_pointers(reference.recent)}
    return {**reference_key(realm, reference.name), **state, "recent": recent}


def reference_state(reference: Reference) -> Item:
    """What must be unchanged when a reference is swapped."""
    pointer = _NO_POINTER if reference.pointer is None else reference.pointer
    numbers = (pointer, reference.version, reference.created_at)
    return dict(zip(REFERENCE_STATE, map(number, numbers), strict=True))


@detects_damage
def read_reference(item: Mapping[str, Any]) -> Reference:
    pointer, version, created_at = (int(item[name]["N"]) for name in REFERENCE_STATE)
    return Reference(
        item[SORT]["B"].decode(),
        None if pointer == _NO_POINTER else pointer,
        version,
        created_at,
        unpack_pointers(item["recent"]["B"]),
    )


@detects_damage
def read_version(item: Mapping[str, Any]) -> int:
    return int(item["version"]["N"])


def row_item(realm: str, row: ObjectRow) -> Item:
    item = {
        **row_key(realm, row.key),
        "type": {"S": row.type},
        "created_at": number(row.created_at),
        "value": {"B": row.value},
    }
    return item if row.token is None else {**item, "token": number(row.token)}


@detects_damage
def read_head(item: Mapping[str, Any]) -> ObjectHead:
    token = int(item["token"]["N"]) if "token" in item else None
    created_at = int(item["created_at"]["N"])
    return ObjectHead(*read_key(item), item["type"]["S"], created_at, token)


@detects_damage
def read_row(item: Mapping[str, Any]) -> ObjectRow:
    return ObjectRow(*read_head(item), item["value"]["B"])


@detects_damage
def read_key(item: Mapping[str, Any]) -> RowKey:
    return RowKey(*_KEY.unpack(item[SORT]["B"]))


def number(value: int) -> Item:
    return {"N": str(value)}


def _key(partition: bytes, sort: bytes) -> Item:
    return {PARTITION: {"B": partition}, SORT: {"B": sort}}


_KEYS = [
    {"AttributeName": PARTITION, "KeyType": "HASH"},
    {"AttributeName": SORT, "KeyType": "RANGE"},
]
_BYTES = [{"AttributeName": name, "AttributeType": "B"} for name in (PARTITION, SORT)]


class DynamoTable:
    """Requests to one table.

    There are two clients. One sends each request once: if a conditional write were resent after its
    first attempt took effect, its condition would fail and the write would look lost. The other one
    retries what is safe to retry.
    """

    def __init__(self, address: DynamoAddress, clock: Clock, random: Random) -> None:
        self.address = address
        self._clock = clock
        self._random = random
        account = find_account(address)
        self._single_try = make_client(account, address, tries=1, connections=4 * WORKERS)
        self._retrying = make_client(account, address, tries=_TRIES, connections=4 * WORKERS)

    def create(self) -> None:
        """Create the table if it does not exist; SchemaError if it has other keys."""
        deadline = self._clock.monotonic() + _CREATE_SECONDS
        if self._status() is None:
            self._create()
        while self._status() in {None, "CREATING"}:
            if self._clock.monotonic() >= deadline:
                raise UnreachableError(f"{self.address}: the table is still being created")
            self._clock.sleep(_POLL_SECONDS)

    def change(self, operation: str, condition: Mapping[str, Any], **arguments: Any) -> bool:
        """Write one item; returns whether its condition held."""
        try:
            send = getattr(self._single_try, operation)
            send(TableName=self.address.table, **arguments, **condition)
        except CLIENT_ERRORS as error:
            if code_of(error) == "ConditionalCheckFailedException":
                return False
            raise translated(error, self.address) from error
        return True

    def ask(self, operation: str, **arguments: Any) -> Any:
        """A request that changes nothing, or nothing that matters by itself."""
        try:
            return getattr(self._retrying, operation)(**arguments)
        except CLIENT_ERRORS as error:
            failure = translated(error, self.address)
            if isinstance(failure, UnknownOutcomeError):
                failure = UnreachableError(failure.message)
            raise failure from error

    def ask_table(self, operation: str, **arguments: Any) -> Any:
        """The same, for this table."""
        return self.ask(operation, TableName=self.address.table, **arguments)

    def write_batch(self, requests: list[Any]) -> None:
        """Put and delete up to 25 items, retrying those that the table defers."""
        self._send_all(self._write_some, requests)

    def read_batch(self, keys: list[Any]) -> list[Any]:
        """Up to 100 items, in any order; missing ones are left out."""
        found: list[Any] = []
        table = self.address.table

        def read_some(rest: list[Any]) -> list[Any]:
            # A row that was written a moment ago must not appear missing.
            wanted = {table: {"Keys": rest, "ConsistentRead": True}}
            answer = self.ask("batch_get_item", RequestItems=wanted)
            found.extend(answer["Responses"].get(table, []))
            deferred: list[Any] = answer["UnprocessedKeys"].get(table, {}).get("Keys", [])
            return deferred

        self._send_all(read_some, keys)
        return found

    def close(self) -> None:
        self._single_try.close()
        self._retrying.close()

    def _status(self) -> str | None:
        try:
            description = self.ask_table("describe_table")["Table"]
        except SchemaError:
            return None
        attributes = description["AttributeDefinitions"]
        if description["KeySchema"] != _KEYS or any(each not in attributes for each in _BYTES):
            raise SchemaError(
                f"{self.address}: this table has other keys, so it is used for something else",
                hint="name another table in the URL",
            )
        return str(description["TableStatus"])

    def _create(self) -> None:
        try:
            self._single_try.create_table(
                TableName=self.address.table,
                KeySchema=_KEYS,
                AttributeDefinitions=_BYTES,
                BillingMode="PAY_PER_REQUEST",
            )
        except CLIENT_ERRORS as error:
            if code_of(error) != "ResourceInUseException":  # another process was faster
                raise translated(error, self.address) from error

    def _write_some(self, requests: list[Any]) -> list[Any]:
        table = self.address.table
        try:
            answer = self._retrying.batch_write_item(RequestItems={table: requests})
        except CLIENT_ERRORS as error:
            raise translated(error, self.address) from error
        deferred: list[Any] = answer["UnprocessedItems"].get(table, [])
        return deferred

    def _send_all(self, send: Callable[[list[Any]], list[Any]], items: list[Any]) -> None:
        """Send items until none is deferred; pauses grow while there is no progress."""
        pause, deadline = 0.0, self._clock.monotonic() + _PATIENCE_SECONDS
        while left := send(items):
            if len(left) < len(items):
                pause, deadline = 0.0, self._clock.monotonic() + _PATIENCE_SECONDS
            elif self._clock.monotonic() >= deadline:
                raise UnreachableError(f"{self.address}: the table is throttling requests")
            else:
                pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, 2 * pause))
            self._clock.sleep(self._random.uniform(pause / 2, pause))
            items = left
