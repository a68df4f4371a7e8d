"""The log of a reference: all its commits, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakesweep.errors import LogCutError
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
        for commit in self._back(name):
            if _is_before(commit, start):
                return
            yield commit
            oldest = commit
        if start is not None and not _reaches(oldest, start):
            raise LogCutError(f"the log of reference {name!r} does not go back to {start}")

    def oldest_first(self, name: str, start: Start | None = None) -> Iterator[Stored[Commit]]:
        """Commits up to the head as it is now. LogCutError comes before all others."""
        ids = [commit.id for commit in self.newest_first(name, start)]
        while ids:
            page = [ids.pop() for _ in range(min(TAIL_COMMITS, len(ids)))]
            commits = self._present(page)
            yield from commits
            if len(commits) < len(page):
                raise LogCutError(f"the log of reference {name!r} was cut while it was read")

    def _back(self, name: str) -> Iterator[Stored[Commit]]:
        reference = self.references.fetch_for_update(name)
        page: Sequence[Stored[Commit]] = []
        if reference.pointer is not None:
            page = self._present([reference.pointer])
            if not page:
                raise self.references.missing_head(reference)
        while page:
            yield from page
            page = self._present(page[-1].value.tail)

    def _present(self, ids: Sequence[int]) -> Sequence[Stored[Commit]]:
        """The commits up to the first that is gone."""
        found = []
        for commit in fetch_commits(self.objects, ids):
            if commit is None:
                break
            found.append(commit)
        return found


def _is_before(commit: Stored[Commit], start: Start | None) -> bool:
    if isinstance(start, datetime):
        return commit.value.committed_at < micros(start)
    return commit.id == start


def _reaches(oldest: Stored[Commit] | None, start: Start) -> bool:
    """Whether a log that was read to its end is complete from the start on."""
    return isinstance(start, datetime) and (oldest is None or oldest.value.seq == 1)
