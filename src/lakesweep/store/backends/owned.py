"""A backend that only the process uses that opened it."""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.store.backend import Backend
from lakesweep.store.backends.passing import PassingBackend
from lakesweep.store.owner import Owner


class OwnedBackend(PassingBackend):
    """Turns every other process away."""

    def __init__(self, backend: Backend, owner: Owner) -> None:
        super().__init__(backend)
        self._owner = owner

    def _enter(self, realm: str) -> None:
        del realm
        self._owner.check()

    def realms(self) -> Sequence[str]:
        self._owner.check()
        return super().realms()
