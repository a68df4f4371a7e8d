"""A store in memory whose moves are steps, each of which can fail."""

from __future__ import annotations

from functools import partial

from lakesweep.storage.moves import move_by_copy
from lakesweep.storage.object_store import Deletion, Expected, expected_of
from lakesweep.storage.wrappers.base import StoreWrapper


class ByCopy(StoreWrapper):
    """Moves objects by calls of the store behind it, as stores over a network do."""

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        info = self.store.head(source)

        def remove() -> Deletion:
            (deletion,) = self.store.delete([source], [expected_of(info)])
            return deletion

        move_by_copy(
            self,
            info,
            target,
            expected,
            copy=partial(self.store.copy, source, target),
            remove=remove,
        )
