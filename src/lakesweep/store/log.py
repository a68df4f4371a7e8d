"""The log of a reference: all its commits, in the order in which they happened."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakesweep.errors import LogCutError
from lakesweep.store.backend import Reference
from lakesweep.store.commit import TAIL_COMMITS, Commit
from lakesweep.store.moments import micros
from lakesweep.store.objects import Objects, Stored
from lakesweep.store.reading import fetch_commits
from lakesweep.store.references import References

#: A commit id, or a moment.
Start = int | datetime


@dataclass(frozen=True, slots=True)
class Log:
    """Reads the commits of the references of one realm.

    With a start, only the commits after that commit come, or those at or after that moment; if the
    log no longer reaches back to it, LogCutError says so. Without one, everything comes that is
    still there: the oldest has a `seq` above 1 if older ones are gone.
    """

    references: References
    objects: Objects

    def newest_first(self, name: str, start: Start | None = None) -> Iterator[Stored[Commit]]:
        """Commits from the head back. LogCutError comes last, behind all that could be read."""
        oldest: Stored[Commit] | None = None
        for commit in self._back(self.references.fetch_for_update(name), start):
            if _is_before(commit, start):
                return
            yield commit
            oldest = commit
        _check_reach(name, oldest, start)

    def oldest_first(self, name: str, start: Start | None = None) -> Iterator[Stored[Commit]]:
        """Commits up to the head as it is now. LogCutError comes before all others.

        However long the log is, no more is held of it than 8 bytes a commit, and a page of commits.
        """
        ids = self.ids(self.references.fetch_for_update(name), start)
        while ids:
            yield from self.take(name, ids, TAIL_COMMITS)

    def ids(self, reference: Reference, start: Start | None = None) -> array[int]:
        """The commits after a start, newest first. About one in twenty is read to find them."""
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
        """Read the last `count` of these commits, and take them off the ids; oldest first."""
        page = ids[: -count - 1 : -1]
        commits = self._present(page)
        if len(commits) < len(page):
            raise LogCutError(f"the log of reference {name!r} was cut while it was read")
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
        """The commits to look at next, and the ids of those before them that need no look."""
        if not tail:
            return [], []
        *passed, far = _up_to(tail, start)
        landed = self._present([far])
        if far == start or (landed and not _is_before(landed[0], start)):
            return passed, landed
        # The log ends in between, or the moment lies there.
        return [], self._present(tail)

    def _present(self, ids: Sequence[int]) -> Sequence[Stored[Commit]]:
        """The commits up to the first that is gone."""
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
