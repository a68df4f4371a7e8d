"""Objects in the memory of one process, for tests and demos. Every key is exact."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import pyarrow as pa

from lakesweep.errors import ExistsError, InexactKeyError, MissingError, UnsupportedError
from lakesweep.storage.object_store import (
    CHANGED,
    ENTRY_SCHEMA,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_expected,
    check_is_expected,
    check_keys,
    is_expected,
)

_PAGE_ROWS = 1_000
_MEMORIES: dict[str, MemoryStore] = {}
_OPENING = threading.Lock()


def open_memory(name: str) -> MemoryStore:
    """The objects of this name; the same name gives the same objects."""
    with _OPENING:
        return _MEMORIES.setdefault(name, MemoryStore(name))


@dataclass(frozen=True, slots=True)
class _Stored:
    data: bytes
    modified: datetime
    etag: str

    def info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.data), self.modified, self.etag)


class MemoryStore:
    """Objects by their keys. Each call is one step: no other thread sees half of it."""

    capabilities = StorageCapabilities(
        delete_batch=1_000,
        ordered=True,
        reports_absent=True,
        verified_deletes=True,
        detects_rewrites=True,
    )

    def __init__(self, name: str) -> None:
        self.base = f"memory://{name}/"
        self._name = name
        self._objects: dict[str, _Stored] = {}
        self._numbers = count(1)
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Callable[[str], MemoryStore], tuple[str]]:
        return open_memory, (self._name,)

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page; a cursor is the last name of the page before, a key or a folder."""
        assert cursor is None or isinstance(cursor, str)
        with self._lock:
            keys = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
            names = sorted({_fold(prefix, key) for key in keys}) if one_level else keys
            start = bisect_right(names, cursor) if cursor is not None else 0
            page = names[start : start + _PAGE_ROWS]
            folders = [name for name in page if one_level and _is_folder(prefix, name)]
            infos = [
                self._objects[key].info(key)
                for key in page
                if not (one_level and _is_folder(prefix, key))
            ]
        is_last = start + len(page) == len(names)
        return ListingPage(_entries(infos), tuple(folders), None if is_last else page[-1])

    def head(self, key: str) -> ObjectInfo:
        return self._find(key).info(key)

    def read(self, key: str) -> bytes:
        return self._find(key).data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._find(key).data[start : start + length]

    def write(self, key: str, data: bytes) -> None:
        self._check(key)
        with self._lock:
            stored = _Stored(bytes(data), datetime.now(UTC), str(next(self._numbers)))
            self._objects[key] = stored

    def write_new(self, key: str, data: bytes) -> None:
        with self._lock:
            if key in self._objects:
                raise ExistsError(self.base + key, "already exists")
            self.write(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        check_keys(keys, self.capabilities.delete_batch)
        check_expected(keys, expected)
        pairs = zip(keys, expected or [None] * len(keys), strict=True)
        with self._lock:
            return [self._delete(key, one) for key, one in pairs]

    def copy(self, source: str, target: str) -> None:
        self.write(target, self.read(source))

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._check(target)
        with self._lock:
            check_is_expected(self.base + source, self.head(source), expected)
            self.write_new(target, self.read(source))
            del self._objects[source]

    def keeps_versions(self) -> bool:
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        raise UnsupportedError(self.base + key, "a memory keeps no versions")

    def _delete(self, key: str, expected: Expected | None) -> Deletion:
        stored = self._objects.get(key)
        if stored is None:
            return Deletion(key, Outcome.ABSENT)
        if not is_expected(stored.info(key), expected):
            return Deletion(key, Outcome.CHANGED, CHANGED)
        del self._objects[key]
        return Deletion(key, Outcome.DELETED)

    def _find(self, key: str) -> _Stored:
        self._check(key)
        stored = self._objects.get(key)
        if stored is None:
            raise MissingError(self.base + key)
        return stored

    def _check(self, key: str) -> None:
        if not key:
            raise InexactKeyError(self.base, "an empty key names no object")


def _fold(prefix: str, key: str) -> str:
    """The key, or the folder directly below the prefix that it lies in."""
    name, slash, _ = key[len(prefix) :].partition("/")
    return prefix + name + slash


def _is_folder(prefix: str, name: str) -> bool:
    """Whether a name of one level stands for what is below it, among them its own marker."""
    return name.endswith("/") and len(name) > len(prefix)


def _entries(infos: Sequence[ObjectInfo]) -> pa.RecordBatch:
    columns = (
        [info.key for info in infos],
        [info.size_bytes for info in infos],
        [info.modified for info in infos],
        [info.etag for info in infos],
    )
    arrays = [pa.array(c, field.type) for c, field in zip(columns, ENTRY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)
