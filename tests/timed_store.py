"""A store in memory whose objects are as old as a clock says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import ExistsError, MissingError, UnsupportedError
from lakesweep.storage.object_store import (
    CHANGED,
    ENTRY_SCHEMA,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_is_expected,
    check_keys,
    is_expected,
)

_numbers = count()


@dataclass(frozen=True, slots=True)
class Timed:
    """One object; no two that were ever written have the same etag."""

    data: bytes
    modified: datetime
    etag: str = field(default_factory=lambda: f"e{next(_numbers)}")


class TimedStore:
    """Answers every listing in one page, and takes deletes one after another, few keys each."""

    capabilities = StorageCapabilities(
        delete_batch=3,
        parallel_deletes=1,
        ordered=True,
        reports_absent=True,
        verified_deletes=True,
        detects_rewrites=True,
        renames=True,
    )

    def __init__(self, base: str, clock: Clock) -> None:
        self.base = base
        self.objects: dict[str, Timed] = {}
        self._clock = clock
        self._lock = threading.Lock()

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        assert cursor is None
        found = {key: self.objects[key] for key in sorted(self.objects) if key.startswith(prefix)}
        folders: dict[str, None] = {}
        rows = []
        for key, each in found.items():
            folder, slash, _ = key.removeprefix(prefix).partition("/")
            if one_level and slash:
                folders[prefix + folder + slash] = None
            elif key > after:
                rows.append((key, len(each.data), each.modified, each.etag))
        columns = list(zip(*rows, strict=True)) or [()] * len(ENTRY_SCHEMA)
        arrays = [pa.array(*pair) for pair in zip(columns, ENTRY_SCHEMA.types, strict=True)]
        entries = pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)
        return ListingPage(entries, tuple(each for each in folders if each > after))

    def head(self, key: str) -> ObjectInfo:
        return _info(key, self._get(key))

    def read(self, key: str) -> bytes:
        return self._get(key).data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.read(key)[start : start + length]

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = Timed(data, self._clock.now())

    def write_new(self, key: str, data: bytes) -> None:
        with self._lock:
            if key in self.objects:
                raise ExistsError(self.base + key, "is there")
            self.write(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        check_keys(keys, self.capabilities.delete_batch)
        return [
            self._delete(key, wanted)
            for key, wanted in zip(keys, expected or [None] * len(keys), strict=True)
        ]

    def copy(self, source: str, target: str) -> None:
        # As stores have it that make etags of what an object holds.
        found = self._get(source)
        self.objects[target] = Timed(found.data, self._clock.now(), found.etag)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        found = self._get(source)
        check_is_expected(self.base + source, _info(source, found), expected)
        if target in self.objects:
            raise ExistsError(self.base + target, "is there")
        self.copy(source, target)
        del self.objects[source]

    def keeps_versions(self) -> bool:
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        raise UnsupportedError(self.base + key, "keeps no versions")

    def age(self, key: str, moment: datetime) -> None:
        """Have an object written at another moment."""
        self.objects[key] = Timed(self.objects[key].data, moment)

    def _delete(self, key: str, expected: Expected | None) -> Deletion:
        found = self.objects.get(key)
        if found is None:
            return Deletion(key, Outcome.ABSENT)
        if not is_expected(_info(key, found), expected):
            return Deletion(key, Outcome.CHANGED, CHANGED)
        del self.objects[key]
        return Deletion(key, Outcome.DELETED)

    def _get(self, key: str) -> Timed:
        try:
            return self.objects[key]
        except KeyError:
            raise MissingError(self.base + key) from None


def _info(key: str, found: Timed) -> ObjectInfo:
    return ObjectInfo(key, len(found.data), found.modified, found.etag)
