"""A backend that counts what it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectRow, Reference, RowFields, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper


class AskedBackend(BackendWrapper):
    """Counts reads of references, reads of objects, and the rows that those name."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.asked: Counter[str] = Counter()

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        self.asked["references"] += 1
        return super().fetch_references(realm, names)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        self.asked["objects"] += 1
        self.asked["rows"] += len(keys)
        return super().fetch(realm, keys)

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        self.asked["objects"] += 1
        self.asked["rows"] += len(ids)
        return super().fetch_first_rows(realm, ids)
