"""The expected heads of references, so that a sole writer commits without reading first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakesweep.store.backends.rows import ObjectRow, Reference

#: Of so many references it is remembered how the last own commit left them.
MAX_HEADS = 1_000
#: A head in a larger row is not remembered with its reference; the cache may have it.
MAX_HEAD_BYTES = 10_000


class OptimisticHead(NamedTuple):
    """A reference as it probably is, and the row of its head, unless that is large."""

    reference: Reference
    head: ObjectRow | None
    came_true: bool


class OptimisticHeads:
    """References as the last commit from here left them.

    One is handed out as a guess only if it was right the last time, so who competes with others
    for a reference asks the database. A wrong guess costs one swap in vain, and nothing else: a
    swap names the version that it replaces.
    """

    def __init__(self) -> None:
        self._guesses: dict[str, OptimisticHead] = {}

    def guess(self, name: str) -> OptimisticHead | None:
        """What the reference is like, unless others move it too."""
        found = self._guesses.get(name)
        return found if found is not None and found.came_true else None

    def learn(self, found: Reference) -> None:
        """The database was asked, and this is what the reference was like."""
        guess = self._guesses.get(found.name)
        if guess is not None:
            is_right = guess.reference == found
            self._guesses[found.name] = OptimisticHead(
                found, guess.head if is_right else None, is_right
            )

    def follow(self, moved: Reference, rows: Sequence[ObjectRow] = ()) -> None:
        """A commit from here moved the reference; the last of its rows are those of its head."""
        before = self._guesses.pop(moved.name, None)
        if len(self._guesses) >= MAX_HEADS:
            self._guesses.pop(next(iter(self._guesses)), None)
        came_true = before is not None and before.came_true
        self._guesses[moved.name] = OptimisticHead(moved, _small_head(rows), came_true)

    def forget(self, name: str) -> None:
        """The guess was wrong."""
        self._guesses.pop(name, None)


def _small_head(rows: Sequence[ObjectRow]) -> ObjectRow | None:
    head = rows[-1] if rows else None
    is_small = head is not None and head.part == 0 and len(head.value) <= MAX_HEAD_BYTES
    return head if is_small else None
