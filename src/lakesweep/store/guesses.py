"""What references are probably like, so that whoever commits alone need not ask first."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.store.backend import Reference

#: Of so many references it is remembered how the last own commit left them.
MAX_GUESSES = 1_000


@dataclass(frozen=True, slots=True)
class _Guess:
    reference: Reference
    came_true: bool


class Guesses:
    """References as the last commit from here left them.

    One is handed out as a guess only if it was right the last time, so who competes with others
    for a reference asks the database. A wrong guess costs one swap in vain, and nothing else: a
    swap names the version that it replaces.
    """

    def __init__(self) -> None:
        self._guesses: dict[str, _Guess] = {}

    def guess(self, name: str) -> Reference | None:
        """What the reference is like, unless others move it too."""
        found = self._guesses.get(name)
        return found.reference if found is not None and found.came_true else None

    def learn(self, found: Reference) -> None:
        """The database was asked, and this is what the reference was like."""
        guess = self._guesses.get(found.name)
        if guess is not None:
            self._guesses[found.name] = _Guess(found, guess.reference == found)

    def follow(self, moved: Reference) -> None:
        """A commit from here moved the reference."""
        before = self._guesses.pop(moved.name, None)
        if len(self._guesses) >= MAX_GUESSES:
            self._guesses.pop(next(iter(self._guesses)), None)
        self._guesses[moved.name] = _Guess(moved, before is not None and before.came_true)

    def forget(self, name: str) -> None:
        """The guess was wrong."""
        self._guesses.pop(name, None)
