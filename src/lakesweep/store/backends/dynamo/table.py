"""One DynamoDB table: its requests, with retries."""

from __future__ import annotations

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
from lakesweep.store.backends.dynamo.items import PARTITION, SORT

#: The number of parallel requests for many rows.
WORKERS = 8

_TRIES = 3
_CREATE_SECONDS = 300.0
_POLL_SECONDS = 0.2
# How long to retry rows that the table defers, without any progress.
_PATIENCE_SECONDS = 60.0
_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0

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
