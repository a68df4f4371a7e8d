"""The log of a reference: read commits in order, follow new ones, limit its length."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.clock import Clock, micros
from lakesweep.errors import LogCutError
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.commit import TAIL_COMMITS, Commit, fetch_commits
from lakesweep.store.commits.references import References
from lakesweep.store.objects.objects import Objects, Stored

#: A commit id, or a time.
Start = int | datetime


@dataclass(frozen=True, slots=True)
class Log:
    """Reads the commits of the references of one realm.

    With a start, only commits after that commit are returned, or those at or after that time;
    LogCutError if the log no longer reaches back to it. Without a start, everything that still
    exists is returned: the oldest has a `seq` above 1 if older ones are gone.
    """

    references: References
    objects: Objects

    def newest_first(self, name: str, start: Start | None = None) -> Iterator[Stored[Commit]]:
        """Commits from the head back. LogCutError comes last, after everything that was read."""
        oldest: Stored[Commit] | None = None
        for commit in self._back(self.references.fetch_for_update(name), start):
            if _is_before(commit, start):
                return
            yield commit
            oldest = commit
        _check_reach(name, oldest, start)

    def oldest_first(self, name: str, start: Start | None = None) -> Iterator[Stored[Commit]]:
        """Commits up to the current head. LogCutError comes first.

        However long the log is, only 8 bytes per commit and one page of commits are in memory.
        """
        ids = self.ids(self.references.fetch_for_update(name), start)
        while ids:
            yield from self.take(name, ids, TAIL_COMMITS)

    def ids(self, reference: Reference, start: Start | None = None) -> array[int]:
        """The commits after a start, newest first. Reads about one in twenty to find them."""
        ids = array("q")
        if start is not None and reference.pointer == start:
            return ids
        oldest: Stored[Commit] | None = None
        page = self._head(reference)
        while page:
            for commit in page:
                if _is_before(commit, start):
                    return ids
                ids.append(commit.id)
            oldest = page[-1]
            passed, page = self._leap(oldest.value.tail, start)
            ids.extend(passed)
        _check_reach(reference.name, oldest, start)
        return ids

    def take(self, name: str, ids: array[int], count: int) -> Sequence[Stored[Commit]]:
        """Read the last `count` of these commits, oldest first, and remove them from the ids."""
        page = ids[: -count - 1 : -1]
        commits = self._present(page)
        if len(commits) < len(page):
            raise LogCutError(f"the log of reference {name!r} was truncated while it was read")
        del ids[-count:]
        return commits

    def _back(self, reference: Reference, start: Start | None) -> Iterator[Stored[Commit]]:
        page = self._head(reference)
        while page:
            yield from page
            tail = _up_to(page[-1].value.tail, start)
            page = self._present(tail) if tail else []

    def _head(self, reference: Reference) -> Sequence[Stored[Commit]]:
        if reference.pointer is None:
            return []
        with self.references.reading_head(reference):
            head = self._present([reference.pointer])
        if not head:
            raise self.references.missing_head(reference)
        return head

    def _leap(
        self, tail: Sequence[int], start: Start | None
    ) -> tuple[Sequence[int], Sequence[Stored[Commit]]]:
        """The commits to read next, and the ids of those before them that need no read."""
        if not tail:
            return [], []
        *passed, far = _up_to(tail, start)
        landed = self._present([far])
        if far == start or (landed and not _is_before(landed[0], start)):
            return passed, landed
        # The log, or the requested time span, ends in between.
        return [], self._present(tail)

    def _present(self, ids: Sequence[int]) -> Sequence[Stored[Commit]]:
        """The commits before the first that is gone."""
        found: list[Stored[Commit]] = []
        for commit in fetch_commits(self.objects, ids):
            if commit is None:
                break
            found.append(commit)
        return found


def _is_before(commit: Stored[Commit], start: Start | None) -> bool:
    if isinstance(start, datetime):
        return commit.value.committed_at < micros(start)
    return commit.id == start


def _up_to(tail: Sequence[int], start: Start | None) -> Sequence[int]:
    """The ids up to the start, if it is among them."""
    return tail[: tail.index(start) + 1] if isinstance(start, int) and start in tail else tail


def _check_reach(name: str, oldest: Stored[Commit] | None, start: Start | None) -> None:
    """LogCutError unless a log that was read to its end is complete from the start on."""
    if start is None:
        return
    if isinstance(start, datetime) and (oldest is None or oldest.value.seq == 1):
        return
    raise LogCutError(f"the log of reference {name!r} does not go back to {start}")


#: The default maximum of commits in one poll.
PAGE_COMMITS = 100


@dataclass(slots=True)
class Follower:
    """Returns each commit of a reference once, in order.

    For one thread at a time. After an error it can be called again; after LogCutError it must be
    replaced by a new follower, since some commits are gone.
    """

    log: Log
    reference: str
    start: Start | None
    clock: Clock
    page_commits: int = PAGE_COMMITS
    # All commits up to this one were returned, are ready, or are ahead.
    _seen: int | None = field(init=False)
    _ahead: array[int] = field(init=False, default_factory=lambda: array("q"))
    _ready: deque[Stored[Commit]] = field(init=False, default_factory=deque)

    def __post_init__(self) -> None:
        self._seen = self.position

    @property
    def position(self) -> int | None:
        """The commit that was returned last, after which another follower may start."""
        return self.start if isinstance(self.start, int) else None

    def poll(self) -> Sequence[Stored[Commit]]:
        """The next commits, oldest first; at most a page, and none if nothing is new.

        Finding nothing new costs one read of the reference.
        """
        self._fill()
        return [self._give() for _ in range(len(self._ready))]

    def stream(self, interval_seconds: float = 1.0) -> Iterator[Stored[Commit]]:
        """All commits, present and future: it never ends, and polls at each interval."""
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


@dataclass(frozen=True, slots=True)
class LogRetention:
    """The newest `commits`, and all that were the head at `since` or later.

    `since` are microseconds since 1970. A commit is the head until the next one is made. So the
    time of its child decides whether a commit is dropped, never its own.
    """

    commits: int = sys.maxsize
    since: int | None = None

    def __post_init__(self) -> None:
        if self.commits < 1:
            raise ValueError("a log keeps at least its head")

    def ends(self, count: int, committed_at: int) -> bool:
        """Whether a log ends after `count` commits, the oldest of which has that time."""
        return count >= self.commits and (self.since is None or committed_at < self.since)

    def next_page(self, count: int) -> int:
        """How many more commits may count, for reading several at once."""
        return sys.maxsize if self.since is not None else self.commits - count
