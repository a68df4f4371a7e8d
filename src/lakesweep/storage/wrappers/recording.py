"""A store that records its calls, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.storage.object_store import Deletion, Expected, ListingPage, ObjectInfo, ObjectStore
from lakesweep.storage.wrappers.base import StoreWrapper


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: the method and its keys (for `list`, the prefix)."""

    method: str
    keys: tuple[str, ...]


class Recording(StoreWrapper):
    """Appends each call to `calls` before it is passed on."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.calls: list[RecordedCall] = []

    def keys(self, *methods: str) -> Sequence[str]:
        """All keys that these methods were called with, in order."""
        return [key for call in self.calls if call.method in methods for key in call.keys]

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        self._record("list", prefix)
        return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        self._record("head", key)
        return self.store.head(key)

    def read(self, key: str) -> bytes:
        self._record("read", key)
        return self.store.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._record("read_range", key)
        return self.store.read_range(key, start, length)

    def write(self, key: str, data: bytes) -> None:
        self._record("write", key)
        self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self._record("write_new", key)
        self.store.write_new(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        self._record("delete", *keys)
        return self.store.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        self._record("copy", source, target)
        self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._record("move", source, target)
        self.store.move(source, target, expected)

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        self._record("undelete", key)
        self.store.undelete(key, expected)

    def _record(self, method: str, *keys: str) -> None:
        self.calls.append(RecordedCall(method, keys))
