"""List through obstore, guarding against keys that its paths cannot represent.

obstore drops a `/` at the beginning and end of a key: the objects `a/` and `/a` are both listed as
`a`, with nothing in the response to tell them apart. The guard stops the listing wherever it can
detect such a key:

- a key outside the listed folder: the folder's own marker;
- a key out of order or repeated: on a store that lists in order, this reveals every altered
  key whose altered form is an object too. If an altered key goes undetected, no object has its
  altered form, and deleting that finds nothing;
- an empty object, an object whose name is also a folder, and the first key that may have
  started with `/`, if the listing has them but `head` does not find them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import ObjectStore as Client

from lakesweep.errors import InexactKeyError
from lakesweep.storage.cloud.errors import CLIENT_ERRORS, translated
from lakesweep.storage.cursor import ListingStep
from lakesweep.storage.object_store import ENTRY_SCHEMA

if TYPE_CHECKING:
    from obstore import ListResult

PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class CloudListRequest:
    """What to list. `ordered` says that the store lists in the byte order of keys."""

    client: Client
    base: str
    prefix: str
    after: str
    ordered: bool


class Stream:
    """All objects below a prefix, page by page."""

    def __init__(self, request: CloudListRequest) -> None:
        self._request = request
        self._guard = _Guard(request, _offset(request.after))
        self._chunks = _chunks(request.client, request.prefix, request.after)

    def step(self) -> ListingStep:
        request = self._request
        try:
            chunk = next(self._chunks, None)
            entries = _entries(chunk)
            self._guard.check(entries)
        except CLIENT_ERRORS as error:
            raise translated(request.base, request.prefix, error) from error
        return ListingStep(_after(entries, request.after), (), chunk is None)


class OneLevel:
    """The objects and folders directly below a prefix, as one page."""

    def __init__(self, request: CloudListRequest) -> None:
        self._request = request

    def step(self) -> ListingStep:
        request = self._request
        try:
            answer = obstore.list_with_delimiter(
                request.client, request.prefix or None, return_arrow=True
            )
            entries = _entries(answer["objects"])
            _Guard(request).check(entries)
        except CLIENT_ERRORS as error:
            raise translated(request.base, request.prefix, error) from error
        return ListingStep(_after(entries, request.after), self._folders(answer), is_last=True)

    def _folders(self, answer: ListResult[Any]) -> tuple[str, ...]:
        after = self._request.after
        folders = [f"{folder}/" for folder in answer["common_prefixes"]]
        if "/" in folders:
            raise _inexact(self._request.base, "/")
        return tuple(f for f in folders if f > after or after.startswith(f))


def inexactness(key: str) -> str | None:
    """Why obstore cannot represent this key exactly, or None."""
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in key):
        return "the client of this store does not support control characters in keys"
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        return "the client of this store does not support empty, `.` or `..` segments"
    return None


def _after(entries: pa.RecordBatch, after: str) -> pa.RecordBatch:
    return entries.filter(pc.greater(entries.column("key"), after)) if after else entries


class _Guard:
    """Checks the keys of a listing as they arrive."""

    def __init__(self, request: CloudListRequest, offset: str | None = None) -> None:
        self._request = request
        self._last = offset or ""
        self._may_lead = request.prefix == "" and request.after < "0"

    def check(self, entries: pa.RecordBatch) -> None:
        keys = entries.column("key").to_pylist()
        sizes = entries.column("size_bytes").to_pylist()
        for key, size in zip(keys, sizes, strict=True):
            self._check_position(key)
            if self._last and key.startswith(self._last + "/"):
                self._check_marker(self._last)
            if size == 0:
                self._check_marker(key)
            self._last = key

    def _check_position(self, key: str) -> None:
        if not key.startswith(self._request.prefix):
            raise _inexact(self._request.base, key + "/")
        if self._may_lead and key >= "0":
            self._may_lead = False
            self._check_leading(key)
        if key <= self._last and (self._request.ordered or self._is_marker(key)):
            raise _inexact(self._request.base, key)

    def _check_marker(self, key: str) -> None:
        if not self._exists(key) and self._is_marker(key):
            raise _inexact(self._request.base, key + "/")

    def _check_leading(self, key: str) -> None:
        """Keys that start with `/` come first among those that do not sort before it."""
        self._check_marker(key)
        if not self._exists(key) and _first(self._request.client, "", self._last) == key:
            raise _inexact(self._request.base, "/" + key)

    def _exists(self, key: str) -> bool:
        try:
            obstore.head(self._request.client, key)
        except FileNotFoundError:
            return False
        return True

    def _is_marker(self, key: str) -> bool:
        """Whether `key/` exists: it is then the first key below that folder."""
        return _first(self._request.client, key + "/", "") == key


def _chunks(client: Client, prefix: str, after: str) -> Iterator[pa.RecordBatch]:
    offset = _offset(after)
    return iter(
        obstore.list(client, prefix or None, offset=offset, chunk_size=PAGE_ROWS, return_arrow=True)
    )


def _offset(after: str) -> str | None:
    """The offset to send: none if obstore would alter it, since rows are compared again anyway."""
    return after if inexactness(after) is None else None


def _first(client: Client, prefix: str, after: str) -> str | None:
    chunk = next(_chunks(client, prefix, after), None)
    return None if chunk is None else pa.record_batch(chunk).column("path")[0].as_py()


def _entries(answer: object | None) -> pa.RecordBatch:
    """The rows of a response in our columns, without copying."""
    if answer is None:
        return pa.RecordBatch.from_pylist([], schema=ENTRY_SCHEMA)
    table = pa.table(answer)
    columns = [
        table.column("path").combine_chunks(),
        table.column("size").combine_chunks().cast(pa.int64()),
        table.column("last_modified").combine_chunks(),
        pc.utf8_trim(table.column("e_tag").combine_chunks(), characters='"'),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)


def _inexact(base: str, key: str) -> InexactKeyError:
    return InexactKeyError(
        base + key,
        "the client of this store cannot distinguish this key from another",
        hint="rename or remove the object with the store's own tools",
    )
