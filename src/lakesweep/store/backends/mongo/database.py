"""A MongoDB database, the meaning of its errors, and the rows of the store as its documents.

The `_id` of a document is its whole key: realm and name, or realm, id and part. MongoDB sorts
such keys field by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymongo
from bson import Int64
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    InvalidOperation,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from lakesweep.errors import (
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
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

#: How long the servers may take for a response.
ANSWER_MILLIS = 30_000
# Defaults for what the URL does not set. Without them the driver would wait for ever.
_DEFAULTS: Mapping[str, Any] = {
    "appname": "lakesweep",
    "serverselectiontimeoutms": 10_000,
    "connecttimeoutms": 10_000,
    "sockettimeoutms": 2 * ANSWER_MILLIS,
    "waitqueuetimeoutms": 2 * ANSWER_MILLIS,
}
# A write counts once no election can undo it.
_MAJORITY = WriteConcern("majority", wtimeout=ANSWER_MILLIS)
_NAMESPACE_EXISTS = 48
_EXAMPLE = "mongodb://user:password@host:27017/database, with special characters percent-encoded"
_UNESCAPED = "user or password is missing, or not percent-encoded"
_DENIED_HINT = "check user, password, authSource and the user's rights"
# With one of these codes the server refused the request before changing anything.
_UNCHANGED: Mapping[int, type[StoreError]] = {
    **dict.fromkeys((11, 13, 18, 8000), StoreError),  # not permitted
    **dict.fromkeys((2, 9, 14, 20, 59, 72, 73, 121, 123, 10334, 13297), StoreError),  # malformed
    26: SchemaError,  # no such collection
    **dict.fromkeys((112, 11000), UnreachableError),  # conflict with another write
    **dict.fromkeys((10107, 13435), UnreachableError),  # it was not the primary in the first place
}
_DENIED = frozenset({11, 13, 18, 8000})
Document = dict[str, Any]
# MongoDB sorts bytes by length first, so this sorts after every name.
_AFTER_NAMES = b"\xff" * (MAX_NAME_BYTES + 1)


class MongoDatabase:
    """Collections whose writes survive an election, and whose reads go to the primary.

    `label` names the database in messages, without user, password and options.
    """

    def __init__(self, url: str) -> None:
        self.label = _without_user(url).partition("?")[0]
        if "/" in _user_of(url):
            # The driver would take the part before it for the host name, and send it there.
            raise UsageError(f"{self.label}: {_UNESCAPED}", hint=_EXAMPLE)
        self._client = self._connect(url)
        self._database = self._client.get_default_database()

    @property
    def is_replicated(self) -> bool:
        """Whether there is a majority to ask; known after the first response."""
        servers = self._client.topology_description.server_descriptions().values()
        return not any(server.server_type_name == "Standalone" for server in servers)

    def collection(self, name: str, *, linearizable: bool = False) -> Collection[Document]:
        """A collection; with `linearizable`, the primary verifies that it still is the primary."""
        return self._database.get_collection(
            name,
            write_concern=_MAJORITY,
            read_concern=ReadConcern("linearizable" if linearizable else "majority"),
            read_preference=ReadPreference.PRIMARY,
        )

    def create_collection(self, name: str) -> None:
        """Create a collection unless it exists."""
        with self.writing():
            try:
                self._database.create_collection(name, check_exists=False, write_concern=_MAJORITY)
            except OperationFailure as error:
                if error.code != _NAMESPACE_EXISTS:
                    raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Wraps requests that change nothing."""
        try:
            yield
        except PyMongoError as error:
            kind = failure(error)
            raise self._translated(
                error, UnreachableError if kind is UnknownOutcomeError else kind
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wraps a request that writes."""
        try:
            yield
        except PyMongoError as error:
            raise self._translated(error, failure(error)) from error

    def close(self) -> None:
        self._client.close()

    def _translated(self, error: PyMongoError, kind: type[StoreError]) -> StoreError:
        # The driver appends pages of what it knows about the servers.
        reason = re.split(r",? \(configured timeouts|, Timeout: |, full error: ", str(error))[0]
        hint = _DENIED_HINT if getattr(error, "code", None) in _DENIED else None
        return kind(f"{self.label}: {reason}", hint=hint)

    def _connect(self, url: str) -> pymongo.MongoClient[Document]:
        try:
            parsed = parse_uri(url, warn=False)
        except (ConfigurationError, ValueError, OSError):
            # The driver's own message may quote part of the password.
            raise UsageError(f"{self.label}: {_mistake(url)}", hint=_EXAMPLE) from None
        if not parsed["database"]:
            raise UsageError(f"{self.label}: the URL names no database", hint=_EXAMPLE)
        options = {key: value for key, value in _DEFAULTS.items() if key not in parsed["options"]}
        try:
            # If the driver retried a write itself, only the result of the last attempt would be
            # visible.
            return pymongo.MongoClient(url, connect=False, retryWrites=False, **options)
        except (ConfigurationError, ValueError, TypeError, OSError) as error:
            # User and password are fine here: these are options, and the files that they name.
            raise UsageError(
                f"{self.label}: the URL has an invalid option: {error}", hint=_EXAMPLE
            ) from None


def failure(error: PyMongoError) -> type[StoreError]:
    """The meaning of an error for a write: UnknownOutcomeError unless surely nothing changed."""
    match error:
        case ServerSelectionTimeoutError() | WaitQueueTimeoutError():
            return UnreachableError  # no server was asked
        case ConfigurationError() | InvalidOperation():
            return StoreError  # no server could be asked
        case WriteConcernError():
            return UnknownOutcomeError  # done, but an election may undo it
        case BulkWriteError():
            return _failure_of_many(error.details)
        case NotPrimaryError():
            return _UNCHANGED.get(_code(error.details), UnknownOutcomeError)
        case OperationFailure():
            return _UNCHANGED.get(error.code or 0, UnknownOutcomeError)
        case _:
            return UnknownOutcomeError


def _failure_of_many(details: Mapping[str, Any]) -> type[StoreError]:
    kinds = {_UNCHANGED.get(_code(each), UnknownOutcomeError) for each in details["writeErrors"]}
    if details["writeConcernErrors"] or len(kinds) != 1:
        return UnknownOutcomeError
    return kinds.pop()


def _code(details: Any) -> int:
    return int(details.get("code", 0)) if isinstance(details, Mapping) else 0


def _without_user(url: str) -> str:
    return re.sub(r"//.*@", "//", url, count=1, flags=re.DOTALL)


def _user_of(url: str) -> str:
    return url.partition("?")[0].partition("://")[2].rpartition("@")[0]


def _mistake(url: str) -> str:
    """What is wrong with a URL, without quoting secrets."""
    try:
        parse_uri(_without_user(url), warn=False)
    except (ConfigurationError, ValueError, OSError) as error:
        return str(error)
    return _UNESCAPED


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
