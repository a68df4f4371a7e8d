"""An object of a store as a file that is read in places."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesweep.storage.store import ObjectStore


class RangeFile(io.RawIOBase):
    """Reads each range with a request of its own; `size_bytes` is what the object must have."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size_bytes}[whence]
        self._place = start + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size_bytes - self._place)
        length = left if size < 0 else min(size, left)
        data = self._store.read_range(self._key, self._place, length) if length else b""
        self._place += len(data)
        return data
