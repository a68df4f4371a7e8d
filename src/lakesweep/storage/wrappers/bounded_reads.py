"""A store that refuses to read files which do not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.errors import LimitError
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.untrusted.limits import ReadLimits

if TYPE_CHECKING:
    from lakesweep.storage.object_store import ObjectStore

_USUAL_BYTES = 32 << 20


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
