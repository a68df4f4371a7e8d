"""The expected heads of references, so that a sole writer commits without reading first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakesweep.store.backends.rows import ObjectRow, Reference

#: The number of references whose state after our last commit is remembered.
MAX_HEADS = 1_000
#: A head in a larger row is not remembered here; the cache may have it.
MAX_HEAD_BYTES = 10_000


class OptimisticHead(NamedTuple):
    """The expected state of a reference, and the row of its head, unless that is large."""

    reference: Reference
    head: ObjectRow | None
    was_right: bool


class OptimisticHeads:
    """References as our last commit left them.

    A guess is used only if the previous one was right, so a writer with competition reads the
    database. A wrong guess costs one failed swap and nothing else: a swap names the version that it
    replaces.
    """

    def __init__(self) -> None:
        self._guesses: dict[str, OptimisticHead] = {}

    def guess(self, name: str) -> OptimisticHead | None:
        """The expected state of the reference, unless others move it too."""
        found = self._guesses.get(name)
        return found if found is not None and found.was_right else None

    def observe(self, found: Reference) -> None:
        """The database was read, and this was the reference."""
        guess = self._guesses.get(found.name)
        if guess is not None:
            is_right = guess.reference == found
            self._guesses[found.name] = OptimisticHead(
                found, guess.head if is_right else None, is_right
            )

    def follow(self, moved: Reference, rows: Sequence[ObjectRow] = ()) -> None:
        """A commit of ours moved the reference; the last of its rows is its head."""
        before = self._guesses.pop(moved.name, None)
        if len(self._guesses) >= MAX_HEADS:
            self._guesses.pop(next(iter(self._guesses)), None)
        was_right = before is not None and before.was_right
        self._guesses[moved.name] = OptimisticHead(moved, _small_head(rows), was_right)

    def forget(self, name: str) -> None:
        """The guess was wrong."""
        self._guesses.pop(name, None)


def _small_head(rows: Sequence[ObjectRow]) -> ObjectRow | None:
    head = rows[-1] if rows else None
    is_small = head is not None and head.part == 0 and len(head.value) <= MAX_HEAD_BYTES
    return head if is_small else None
