"""A small store in memory that answers in pages of a few keys, and counts what it is asked."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.storage.address import Address
from lakesweep.storage.object_store import (
    ENTRY_SCHEMA,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    Outcome,
    StorageCapabilities,
    check_keys,
)

#: Keys and folders, each with whether it is a folder.
Names = Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class ListCall:
    """The arguments of one call of `list`."""

    prefix: str
    one_level: bool
    after: str
    cursor: object | None


@dataclass
class PagedStore:
    """Holds keys only; each object is as large as its key is long.

    `before_list` and `before_delete` are called first, and may raise or change the keys. Without
    `ordered`, listings come backwards.
    """

    keys: AbstractSet[str]
    page_rows: int = 3
    ordered: bool = True
    base: str = "memory://bucket/"
    delete_batch: int = 4
    parallel_deletes: int = 8
    before_list: Callable[[ListCall], None] = lambda _: None
    before_delete: Callable[[Sequence[str]], None] = lambda _: None
    list_calls: list[ListCall] = field(default_factory=list)
    delete_calls: list[Sequence[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.keys = frozenset(self.keys)

    @property
    def capabilities(self) -> StorageCapabilities:
        return StorageCapabilities(
            delete_batch=self.delete_batch,
            parallel_deletes=self.parallel_deletes,
            ordered=self.ordered,
            reports_absent=True,
        )

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        call = ListCall(prefix, one_level, after, cursor)
        with self._lock:
            self.list_calls.append(call)
        self.before_list(call)
        names = self._names(call)
        page, rest = names[: self.page_rows], names[self.page_rows :]
        keys = [key for key, is_folder in page if not is_folder]
        folders = tuple(name for name, is_folder in page if is_folder)
        return ListingPage(entries_of(keys), folders, page[-1] if rest else None)

    def head(self, key: str) -> ObjectInfo:
        if key not in self.keys:
            raise MissingError(self.base + key)
        return ObjectInfo(key, len(key), None, None)

    def read(self, key: str) -> bytes:
        raise NotImplementedError

    def read_range(self, key: str, start: int, length: int) -> bytes:
        raise NotImplementedError

    def write(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def write_new(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def copy(self, source: str, target: str) -> None:
        raise NotImplementedError

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        raise NotImplementedError

    def keeps_versions(self) -> bool:
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        raise NotImplementedError

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        check_keys(keys, self.delete_batch)
        with self._lock:
            self.delete_calls.append(keys)
        self.before_delete(keys)
        with self._lock:
            return [self._delete_one(key) for key in keys]

    def _delete_one(self, key: str) -> Deletion:
        if key not in self.keys:
            return Deletion(key, Outcome.ABSENT)
        self.keys = self.keys - {key}
        return Deletion(key, Outcome.DELETED)

    def _names(self, call: ListCall) -> Names:
        """The keys and folders of a page and one more, each with whether it is a folder."""
        keys = _sorted(frozenset(self.keys))
        start = max(bisect_left(keys, call.prefix), bisect_right(keys, call.after))
        if call.one_level or not self.ordered:
            return self._slow_names(call, keys[start:])
        if isinstance(call.cursor, tuple):
            start = bisect_right(keys, call.cursor[0])
        page = keys[start : start + self.page_rows + 1]
        return [(key, False) for key in page if key.startswith(call.prefix)]

    def _slow_names(self, call: ListCall, keys: Sequence[str]) -> Names:
        found = [key for key in keys if key.startswith(call.prefix)]
        length = len(call.prefix)
        names = [_fold(key, length) if call.one_level else (key, False) for key in found]
        names = [name for name, _ in groupby(names)][:: 1 if self.ordered else -1]
        if not isinstance(call.cursor, tuple):
            return names
        is_left = call.cursor[0].__lt__ if self.ordered else call.cursor[0].__gt__
        return [name for name in names if is_left(name[0])]


@lru_cache(maxsize=8)
def _sorted(keys: frozenset[str]) -> list[str]:
    return sorted(keys)


@dataclass(frozen=True, slots=True)
class OneStore:
    """Opens the same store for every address."""

    store: ObjectStore

    def open(self, address: Address) -> ObjectStore:
        assert address.base
        return self.store


def entries_of(keys: Iterable[str]) -> pa.RecordBatch:
    """Entries as a listing gives them."""
    rows = [{"key": key, "size_bytes": len(key), "modified": None, "etag": None} for key in keys]
    return pa.RecordBatch.from_pylist(rows, schema=ENTRY_SCHEMA)


def _fold(key: str, length: int) -> tuple[str, bool]:
    slash = key.find("/", length)
    return (key, False) if slash < 0 else (key[: slash + 1], True)
