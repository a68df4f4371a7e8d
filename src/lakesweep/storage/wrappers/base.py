"""The base of all wrappers: passes every call on to the wrapped store."""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    StorageCapabilities,
)


class StoreWrapper:
    """Passes every call to the wrapped store. Subclasses override what they change."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    @property
    def base(self) -> str:
        return self.store.base

    @property
    def capabilities(self) -> StorageCapabilities:
        return self.store.capabilities

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        return self.store.head(key)

    def read(self, key: str) -> bytes:
        return self.store.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.store.read_range(key, start, length)

    def write(self, key: str, data: bytes) -> None:
        self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self.store.write_new(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        return self.store.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self.store.move(source, target, expected)

    def keeps_versions(self) -> bool:
        return self.store.keeps_versions()

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        self.store.undelete(key, expected)
