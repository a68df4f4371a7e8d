"""A backend that is asked at once and answers late."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper

Answer = TypeVar("Answer")


class LateBackend(BackendWrapper):
    """Between what the next call finds or does and its answer, `meanwhile` happens, once."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.meanwhile: Callable[[], object] | None = None

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        return self._answer(super().fetch_references(realm, names))

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        return self._answer(super().update_reference(realm, new, expected))

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        return self._answer(super().fetch(realm, keys))

    def _answer(self, answer: Answer) -> Answer:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return answer
