"""Rows of the store as items of one DynamoDB table.

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
from collections.abc import Mapping
from typing import Any

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
