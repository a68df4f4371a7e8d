"""Rows of the store as MongoDB documents.

The `_id` of a document is its whole key: realm and name, or realm, id and part. MongoDB sorts
such keys field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import Int64

from lakesweep.store.backends.rows import (
    EVERY_ID,
    MAX_NAME_BYTES,
    ObjectHead,
    ObjectRow,
    Reference,
    RowKey,
    detects_damage,
    pack_pointers,
    unpack_pointers,
)

Document = dict[str, Any]

# MongoDB sorts bytes by length first, so this sorts after every name.
_AFTER_NAMES = b"\xff" * (MAX_NAME_BYTES + 1)


def reference_key(realm: str, name: bytes) -> Document:
    return {"realm": realm.encode(), "name": name}


def last_reference(realm: bytes) -> Document:
    return {"realm": realm, "name": _AFTER_NAMES}


def row_key(realm: str, number: int, part: int = 0) -> Document:
    return {"realm": realm.encode(), "id": Int64(number), "part": Int64(part)}


def last_row(realm: bytes, number: int = EVERY_ID.last) -> Document:
    return {"realm": realm, "id": Int64(number), "part": Int64(EVERY_ID.last)}


def between(first: Document, last: Document) -> Document:
    return {"$gte": first, "$lte": last}


def reference_state(realm: str, expected: Reference) -> Document:
    return {
        "_id": reference_key(realm, expected.name.encode()),
        "pointer": _int64(expected.pointer),
        "version": Int64(expected.version),
        "created_at": Int64(expected.created_at),
    }


def reference_document(realm: str, reference: Reference) -> Document:
    return {**reference_state(realm, reference), "recent": pack_pointers(reference.recent)}


@detects_damage
def read_reference(document: Mapping[str, Any]) -> Reference:
    return Reference(
        document["_id"]["name"].decode(),
        _plain(document["pointer"]),
        int(document["version"]),
        int(document["created_at"]),
        unpack_pointers(document["recent"]),
    )


@detects_damage
def read_version(document: Mapping[str, Any]) -> int:
    return int(document["version"])


def row_state(realm: str, key: RowKey, token: int) -> Document:
    return {"_id": row_key(realm, *key), "token": Int64(token)}


def head_state(realm: str, head: ObjectHead) -> Document:
    """What a row must still contain to be the one that a scan saw."""
    key = row_key(realm, head.id, head.part)
    return {"_id": key, "created_at": Int64(head.created_at), "token": _int64(head.token)}


def row_document(realm: str, row: ObjectRow) -> Document:
    return {
        "_id": row_key(realm, *row.key),
        "type": row.type,
        "created_at": Int64(row.created_at),
        "token": _int64(row.token),
        "value": row.value,
    }


@detects_damage
def read_head(document: Mapping[str, Any]) -> ObjectHead:
    key = document["_id"]
    created_at, token = int(document["created_at"]), _plain(document["token"])
    return ObjectHead(int(key["id"]), int(key["part"]), document["type"], created_at, token)


@detects_damage
def read_row(document: Mapping[str, Any]) -> ObjectRow:
    return ObjectRow(*read_head(document), document["value"])


def _int64(number: int | None) -> Int64 | None:
    return None if number is None else Int64(number)


def _plain(number: Int64 | None) -> int | None:
    return None if number is None else int(number)
