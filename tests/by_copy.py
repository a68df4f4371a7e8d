"""A store in memory whose moves are steps, each of which can fail."""

from __future__ import annotations

from functools import partial

from lakesweep.storage.expected import Expected, expected_of
from lakesweep.storage.moving import move_by_copy
from lakesweep.storage.store import Deletion
from lakesweep.storage.wrappers.wrapped import Wrapped


class ByCopy(Wrapped):
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
