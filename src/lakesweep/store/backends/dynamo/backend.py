"""The store in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import SchemaError, StoreError
from lakesweep.parallel import map_ordered
from lakesweep.store.backends.backend import (
    SCAN_ROWS,
    SCHEMA_VERSION,
    BackendCapabilities,
    refuse_newer,
    write_then_swap,
)
from lakesweep.store.backends.dynamo.client import parse_address
from lakesweep.store.backends.dynamo.table import (
    HEAD_ATTRIBUTES,
    PARTITION,
    SORT,
    WORKERS,
    DynamoTable,
    Item,
    number,
    read_head,
    read_key,
    read_reference,
    read_row,
    read_version,
    realm_key,
    realms_partition,
    reference_item,
    reference_key,
    reference_state,
    references_partition,
    row_item,
    row_key,
    rows_partition,
    schema_key,
    sort_range,
)
from lakesweep.store.backends.rows import (
    EVERY_ID,
    HeadPage,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowFields,
    RowKey,
    batches,
    first_keys,
    split_span,
    whole_pages,
)

Task = TypeVar("Task")
Result = TypeVar("Result")

#: How many rows one request writes, and how many it reads.
WRITE_ROWS = 25
READ_ROWS = 100
#: The page size of a scan, for small rows.
PAGE_ROWS = 1_000

_ABSENT = {
    "ConditionExpression": "attribute_not_exists(#sk)",
    "ExpressionAttributeNames": {"#sk": SORT},
}


class DynamoBackend:
    """Keeps the rows in one table.

    All reads are consistent. A realm cannot be deleted in one call: DynamoDB deletes item by item,
    up to 25 per request.
    """

    def __init__(
        self, url: str, *, clock: Clock | None = None, random: Random | None = None
    ) -> None:
        chance = random or Random()  # noqa: S311 (jitter needs no secrecy)
        self._table = DynamoTable(parse_address(url), clock or SystemClock(), chance)
        self._recorded_realms: set[str] = set()
        self.capabilities = BackendCapabilities(
            durable=True,
            deletes_realms=False,
            max_value_bytes=400_000,  # an item has 409,600 bytes, keys and names included
            batch_rows=WRITE_ROWS,
            splits_scans=True,
        )

    def init_schema(self) -> None:
        self._table.create()
        refuse_newer(str(self._table.address), self._version() or 0)
        item = {**schema_key(), "version": number(SCHEMA_VERSION)}
        self._table.change("put_item", _ABSENT, Item=item)
        self.check_schema()

    def check_schema(self) -> None:
        version = self._version()
        if version is None:
            raise SchemaError(f"{self._table.address}: the table was not created completely")
        refuse_newer(str(self._table.address), version)

    def close(self) -> None:
        self._table.close()

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        self._record_realm(realm)
        return self._table.change("put_item", _ABSENT, Item=reference_item(realm, reference))

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        # There is no batch of conditional writes, so only the apparently missing ones are tried.
        existing = self.fetch_references(realm, [reference.name for reference in references])
        missing = [reference for reference in references if reference.name not in existing]
        _in_parallel(partial(self.insert_reference, realm), missing)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        keys = [reference_key(realm, name) for name in dict.fromkeys(names)]
        found = map(read_reference, self._fetch(keys))
        return {reference.name: reference for reference in found}

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        item = reference_item(realm, new)
        return self._table.change("put_item", _holds(reference_state(expected)), Item=item)

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        return write_then_swap(self, realm, rows, new, expected)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        key = reference_key(realm, expected.name)
        return self._table.change("delete_item", _holds(reference_state(expected)), Key=key)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        found = self._fetch([row_key(realm, key) for key in dict.fromkeys(keys)])
        return {row.key: row for row in map(read_row, found)}

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        return list(self.fetch(realm, first_keys(ids)).values())

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        if rows:
            self._record_realm(realm)
        self._write([{"PutRequest": {"Item": row_item(realm, row)}} for row in rows])

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        named = (row_key(realm, key) for key in dict.fromkeys(keys))
        self._write([{"DeleteRequest": {"Key": key}} for key in named])

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        self._record_realm(realm)
        return self._table.change("put_item", _ABSENT, Item=row_item(realm, row))

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        condition = _holds({"token": number(expected_token)})
        return self._table.change("put_item", condition, Item=row_item(realm, row))

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        condition = _holds({"token": number(expected_token)})
        return self._table.change("delete_item", condition, Key=row_key(realm, key))

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        # There is no batch of conditional deletes.
        return sum(_in_parallel(partial(self._delete_head, realm), list(expected)))

    def realms(self) -> Sequence[str]:
        noted = [item[SORT]["B"].decode() for item in self._query(realms_partition(), (SORT,))]
        inhabited = _in_parallel(self._has_rows, noted)
        return [realm for realm, has_rows in zip(noted, inhabited, strict=True) if has_rows]

    def scan_references(self, realm: str) -> Iterator[Reference]:
        return map(read_reference, self._query(references_partition(realm)))

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        within = sort_range(span)
        return map(read_head, self._query(rows_partition(realm), HEAD_ATTRIBUTES, within))

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        return whole_pages(self.scan_rows(realm, span), rows)

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        ends = [self._end(rows_partition(realm), forward=forward) for forward in (True, False)]
        lowest, highest = (read_key(end).id if end else 0 for end in ends)
        return split_span(lowest, highest, count)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        del guard
        raise StoreError(
            f"{self._table.address}: DynamoDB cannot delete realm {realm!r} in one call",
            hint="scan its rows and delete them",
        )

    def _delete_head(self, realm: str, head: ObjectHead) -> bool:
        key = row_key(realm, RowKey(head.id, head.part))
        return self._table.change("delete_item", _is_head(head), Key=key)

    def _record_realm(self, realm: str) -> None:
        # Partitions cannot be listed without reading every item of the table. So each realm is
        # recorded before its first row, once per process, and for good: a row whose realm is not
        # recorded would never be found, and removing the record could race with a new row.
        if realm not in self._recorded_realms:
            self._table.ask_table("put_item", Item=realm_key(realm))
            self._recorded_realms.add(realm)

    def _has_rows(self, realm: str) -> bool:
        partitions = (references_partition(realm), rows_partition(realm))
        return any(self._end(partition, forward=True) for partition in partitions)

    def _fetch(self, keys: Sequence[Item]) -> Iterator[Any]:
        for found in _in_parallel(self._table.read_batch, list(batches(keys, READ_ROWS))):
            yield from found

    def _write(self, requests: Sequence[Any]) -> None:
        _in_parallel(self._table.write_batch, list(batches(requests, WRITE_ROWS)))

    def _query(
        self,
        partition: bytes,
        attributes: Sequence[str] = (),
        within: tuple[bytes, bytes] | None = None,
    ) -> Iterator[Any]:
        arguments = _query_arguments(partition, attributes, within) | {"Limit": PAGE_ROWS}
        page = self._table.ask_table("query", **arguments)
        yield from page["Items"]
        while behind := page.get("LastEvaluatedKey"):
            page = self._table.ask_table("query", **arguments, ExclusiveStartKey=behind)
            yield from page["Items"]

    def _end(self, partition: bytes, *, forward: bool) -> Any:
        arguments = _query_arguments(partition, (SORT,)) | {"Limit": 1, "ScanIndexForward": forward}
        return next(iter(self._table.ask_table("query", **arguments)["Items"]), None)

    def _version(self) -> int | None:
        found = self._table.ask_table("get_item", Key=schema_key(), ConsistentRead=True).get("Item")
        return None if found is None else read_version(found)


def _holds(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition that these attributes have these values."""
    return {
        "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in state),
        "ExpressionAttributeNames": {f"#{name}": name for name in state},
        "ExpressionAttributeValues": {f":{name}": value for name, value in state.items()},
    }


def _is_head(head: ObjectHead) -> Mapping[str, Any]:
    """The condition that a row is still the one that a scan saw."""
    created = {"created_at": number(head.created_at)}
    if head.token is not None:
        return _holds({**created, "token": number(head.token)})
    same = _holds(created)
    return {
        **same,
        "ConditionExpression": f"{same['ConditionExpression']} AND attribute_not_exists(#token)",
        "ExpressionAttributeNames": {**same["ExpressionAttributeNames"], "#token": "token"},
    }


def _query_arguments(
    partition: bytes, attributes: Sequence[str] = (), within: tuple[bytes, bytes] | None = None
) -> dict[str, Any]:
    """The arguments of a query for the items of one partition, in sort order."""
    condition, names, values = "#pk = :pk", {"#pk": PARTITION}, {":pk": {"B": partition}}
    arguments: dict[str, Any] = {"ConsistentRead": True}
    if within is not None:
        condition += " AND #sk BETWEEN :first AND :last"
        names["#sk"] = SORT
        values |= {":first": {"B": within[0]}, ":last": {"B": within[1]}}
    if attributes:
        names |= {f"#{name}": name for name in attributes}
        arguments["ProjectionExpression"] = ", ".join(f"#{name}" for name in attributes)
    return arguments | {
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _in_parallel(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    """The results of several tasks, run by up to WORKERS threads."""
    if len(tasks) <= 1:
        return [work(task) for task in tasks]
    return list(map_ordered(work, tasks, workers=WORKERS))
