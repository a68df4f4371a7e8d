"""A store that refuses every change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from lakesweep.errors import RefusedError
from lakesweep.storage.object_store import Deletion, Expected
from lakesweep.storage.wrappers.base import StoreWrapper


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
