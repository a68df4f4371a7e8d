"""How far back the log of a reference counts."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class History:
    """The newest `commits`, and besides all that were the head at `since` or later.

    `since` are microseconds since 1970. A commit is the head until the next one is made. So it is
    by the time of its child that a commit is left out, and never by its own.
    """

    commits: int = sys.maxsize
    since: int | None = None

    def __post_init__(self) -> None:
        if self.commits < 1:
            raise ValueError("a log counts with its head at least")

    def ends(self, count: int, committed_at: int) -> bool:
        """Whether a log ends behind `count` commits, the oldest of which is of that moment."""
        return count >= self.commits and (self.since is None or committed_at < self.since)

    def next_page(self, count: int) -> int:
        """How many more commits may count, for who reads several at once."""
        return sys.maxsize if self.since is not None else self.commits - count
