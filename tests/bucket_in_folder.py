"""A folder of this machine in place of a bucket: its keys are paths below the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.object_store import Deletion, Expected, ListingPage, ObjectInfo
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper


class BucketInFolder(StoreWrapper):
    """Keys get the folder before them on their way in, and lose it on their way out."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(Stores().open("/"))
        self._prefix = f"{folder}/".lstrip("/")

    @property
    def base(self) -> str:
        return f"/{self._prefix}"

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        after = self._prefix + after if after else ""
        page = self.store.list(
            self._prefix + prefix, one_level=one_level, after=after, cursor=cursor
        )
        keys = pc.utf8_slice_codeunits(page.entries.column(0), start=len(self._prefix))
        columns = [keys.cast(page.entries.schema.field(0).type), *page.entries.columns[1:]]
        entries = pa.RecordBatch.from_arrays(columns, schema=page.entries.schema)
        folders = tuple(each.removeprefix(self._prefix) for each in page.folders)
        return replace(page, entries=entries, folders=folders)

    def head(self, key: str) -> ObjectInfo:
        return replace(self.store.head(self._prefix + key), key=key)

    def read(self, key: str) -> bytes:
        return self.store.read(self._prefix + key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.store.read_range(self._prefix + key, start, length)

    def write(self, key: str, data: bytes) -> None:
        self.store.write(self._prefix + key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self.store.write_new(self._prefix + key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        found = self.store.delete([self._prefix + key for key in keys], expected)
        return [replace(each, key=each.key.removeprefix(self._prefix)) for each in found]
