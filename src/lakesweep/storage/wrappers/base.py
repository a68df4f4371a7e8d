"""The base of all wrappers, which passes every call on, and the two simplest wrappers.

One refuses every change, the other refuses to read files which do not fit into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from lakesweep.errors import LimitError, RefusedError
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    StorageCapabilities,
)
from lakesweep.untrusted.limits import ReadLimits

if TYPE_CHECKING:
    from lakesweep.storage.object_store import ObjectStore


_USUAL_BYTES = 32 << 20


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


class ReadOnly(StoreWrapper):
    """Refuses every call that writes or deletes, before it reaches the store."""

    def write(self, key: str, data: bytes) -> None:  # noqa: ARG002
        self._refuse("write", key)

    def write_new(self, key: str, data: bytes) -> None:  # noqa: ARG002
        self._refuse("write", key)

    def delete(
        self,
        keys: Sequence[str],
        expected: Sequence[Expected | None] | None = None,  # noqa: ARG002
    ) -> Sequence[Deletion]:
        self._refuse("delete", keys[0] if keys else "")

    def copy(self, source: str, target: str) -> None:  # noqa: ARG002
        self._refuse("write", target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        self._refuse("move", source)

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        self._refuse("undelete", key)

    def _refuse(self, what: str, key: str) -> NoReturn:
        raise RefusedError("read-only", f"will not {what} {self.base}{key}: the store is read-only")


class BoundedReads(StoreWrapper):
    """Reads whole objects only up to `file_bytes`; LimitError for larger ones.

    A table's files are written by others, and a file of 60 GB may be called `v1.metadata.json`.
    Nearly all files are small and take one request; only large ones are asked for their size
    before they are read. Asking for one byte too many refuses a file that has grown since.
    """

    def __init__(self, store: ObjectStore, limits: ReadLimits) -> None:
        super().__init__(store)
        self._most = limits.file_bytes

    def read(self, key: str) -> bytes:
        usual = min(_USUAL_BYTES, self._most)
        data = self.store.read_range(key, 0, usual + 1)
        if len(data) <= usual:
            return data
        if self.store.head(key).size_bytes <= self._most:
            # Again from the start: two requests could return parts of two different objects.
            data = self.store.read_range(key, 0, self._most + 1)
            if len(data) <= self._most:
                return data
        raise LimitError.of(self.base + key, "has", self._most, "limits.file_bytes")
