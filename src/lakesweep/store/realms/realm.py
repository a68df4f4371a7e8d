"""One realm: its objects, references, commits and indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from lakesweep.clock import Clock
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.commit import Commit
from lakesweep.store.commits.committer import Attempt, Committed, Committer
from lakesweep.store.commits.fair_lock import FairLocks
from lakesweep.store.commits.log import PAGE_COMMITS, Follower, Log, Start
from lakesweep.store.commits.recovery import recover
from lakesweep.store.commits.references import References
from lakesweep.store.index import Codec, Index
from lakesweep.store.index.object_nodes import Indexes
from lakesweep.store.objects.links import IndexRoot
from lakesweep.store.objects.object_types import ObjectTypes
from lakesweep.store.objects.objects import IdSource, Objects, Stored

Head = TypeVar("Head", bound=Commit)
V = TypeVar("V")


@dataclass(slots=True)
class CommitCounts:
    """The commits of this process: those that changed something, and attempts that lost a swap."""

    commits: int = 0
    conflicts: int = 0

    def add(self, committed: Committed[Any]) -> None:
        """Count one. Threads may miss each other's; these are only statistics."""
        self.commits += committed.changed
        self.conflicts += committed.attempts - 1


@dataclass(frozen=True, slots=True)
class RealmContext:
    """What all realms of a store share."""

    types: ObjectTypes
    clock: Clock
    ids: IdSource
    locks: FairLocks
    random: Random
    counts: CommitCounts = field(default_factory=CommitCounts)


class Realm:
    """Objects, references and commits of one realm. Threads may share it.

    `backend` has its rows as stored, for copying or counting them, and `stored` its objects;
    `cached` may return objects, and slightly outdated references, without asking the database.
    `clock` is used for everything in it.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        context: RealmContext,
        cached: Backend | None = None,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        #: RefusedError unless the state of the realm, as stored now, allows its use.
        self.verify = verify
        self.backend = backend
        self._ids = context.ids
        self.clock = context.clock
        self._counts = context.counts
        cached = cached or backend
        self.references = References(backend, name, context.clock, cached)
        self.objects = Objects(cached, name, context.types, context.clock, context.ids)
        self.stored = Objects(backend, name, context.types, context.clock, context.ids)
        self._indexes = Indexes(self.objects)
        self._log = Log(self.references, self.objects)
        self._commits = Committer(
            self.references,
            self.objects,
            self._indexes,
            context.ids,
            context.clock,
            context.locks,
            context.random,
        )

    def commit(
        self,
        reference: str,
        change: Callable[[Attempt[Head]], Head | None],
        kind: type[Any] = Commit,
        *,
        message: str = "",
        author: str = "",
    ) -> Committed[Head]:
        """Replace the head of a reference by the result of `change`; see `Committer.commit`.

        With a `kind`, WrongTypeError if the current head is of another.
        """
        done: Committed[Head] = self._commits.commit(
            reference, kind, change, message=message, author=author
        )
        self._counts.add(done)
        return done

    def head(self, reference: str, kind: type[Head], *, fresh: bool = False) -> Stored[Head] | None:
        """The newest commit of a reference; None before the first one.

        Commits through this store are visible at once. Those of others may be missed briefly,
        unless `fresh` is set.
        """
        fetch = self.references.fetch_for_update if fresh else self.references.fetch
        found = fetch(reference)
        if found.pointer is None:
            return None
        with self.references.reading_head(found):
            head = self.objects.fetch(found.pointer, kind)
        if head is None and not fresh:
            return self.head(reference, kind, fresh=True)  # perhaps recovered meanwhile
        if head is None:
            raise self.references.missing_head(found)
        return head

    def log(
        self, reference: str, since: Start | None = None, *, oldest_first: bool = False
    ) -> Iterator[Stored[Commit]]:
        """The commits of a reference, newest first; after a commit, or from a time on."""
        read = self._log.oldest_first if oldest_first else self._log.newest_first
        return read(reference, since)

    def follow(
        self, reference: str, since: Start | None = None, *, page_commits: int = PAGE_COMMITS
    ) -> Follower:
        """A feed of the commits after a commit, or from a time on; otherwise of all commits."""
        return Follower(self._log, reference, since, self.clock, page_commits)

    def index(self, root: IndexRoot, codec: Codec[V]) -> Index[V]:
        """An index that an object of this realm embeds. Nothing is loaded yet."""
        return self._indexes.open(root, codec)

    def new_id(self) -> int:
        """A new id, for an object that is written conditionally."""
        return self._ids.next()

    def recover(self, reference: str) -> Reference:
        """Go back to the newest readable recent commit; see `recovery.recover`."""
        return recover(self.references, self.stored, reference)
