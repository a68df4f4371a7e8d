"""The log of a reference as a feed: what is new since the last look."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakesweep.clock import Clock
from lakesweep.store.commit import Commit
from lakesweep.store.log import Log, Start
from lakesweep.store.objects import Stored

#: How many commits one poll brings at most, unless it is asked for otherwise.
PAGE_COMMITS = 100


@dataclass(slots=True)
class Follower:
    """Gives out each commit of a reference once, in the order in which they happened.

    It is for one thread at a time. Any error leaves it where it was, so it may be asked again;
    after LogCutError somebody must begin anew, since there are commits that it can never give.
    """

    log: Log
    reference: str
    start: Start | None
    clock: Clock
    page_commits: int = PAGE_COMMITS
    # All commits up to this one were given out, are ready, or ahead.
    _seen: int | None = field(init=False)
    _ahead: array[int] = field(init=False, default_factory=lambda: array("q"))
    _ready: deque[Stored[Commit]] = field(init=False, default_factory=deque)

    def __post_init__(self) -> None:
        self._seen = self.position

    @property
    def position(self) -> int | None:
        """The commit that was given out last, behind which another follower may start."""
        return self.start if isinstance(self.start, int) else None

    def poll(self) -> Sequence[Stored[Commit]]:
        """The next commits, oldest first; a page of them at most, and none if nothing is new.

        It takes one read of the reference to find that nothing is new.
        """
        self._fill()
        return [self._give() for _ in range(len(self._ready))]

    def stream(self, interval_seconds: float = 1.0) -> Iterator[Stored[Commit]]:
        """All commits, and those to come: it never ends, and looks again after each interval."""
        while True:
            self._fill()
            if not self._ready:
                self.clock.sleep(interval_seconds)
            while self._ready:
                yield self._give()

    def _fill(self) -> None:
        if self._ready:
            return
        if not self._ahead:
            self._look_ahead()
        if self._ahead:
            self._ready.extend(self.log.take(self.reference, self._ahead, self.page_commits))

    def _look_ahead(self) -> None:
        reference = self.log.references.fetch_for_update(self.reference)
        if reference.pointer != self._seen:
            self._ahead = self.log.ids(reference, self.start)
            self._seen = reference.pointer

    def _give(self) -> Stored[Commit]:
        commit = self._ready.popleft()
        self.start = commit.id
        return commit
