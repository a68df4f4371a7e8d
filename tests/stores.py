"""A realm of a store for tests, over any backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import msgspec

from lakesweep.clock import Clock, ManualClock
from lakesweep.store.backends.backend import Backend
from lakesweep.store.commits.commit import Change, Commit
from lakesweep.store.commits.committer import Attempt, Committer
from lakesweep.store.commits.fair_lock import FairLocks
from lakesweep.store.commits.log import Log
from lakesweep.store.commits.references import References
from lakesweep.store.index.object_nodes import Indexes
from lakesweep.store.objects.links import Link
from lakesweep.store.objects.object_types import ObjectTypes
from lakesweep.store.objects.objects import Objects
from tests.moments import NOON

REALM = "acme"


class Note(Commit, frozen=True, kw_only=True):
    """A head that lists what was done, and the object that came with each deed."""

    done: tuple[str, ...] = ()
    papers: tuple[Link, ...] = ()


class Paper(msgspec.Struct, frozen=True):
    """An object beside a head."""

    text: str = ""


TYPES = ObjectTypes({"note": Note, "paper": Paper})


class CountingIds:
    """Ids of one process, one after another."""

    def __init__(self, first: int = 1, step: int = 1) -> None:
        self._next = first
        self._step = step
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            number = self._next
            self._next += self._step
            return number


@dataclass(frozen=True, slots=True)
class Writer:
    """What one process has of a realm."""

    backend: Backend
    references: References
    objects: Objects
    commits: Committer
    log: Log


def open_writer(
    backend: Backend,
    *,
    ids: CountingIds | None = None,
    clock: Clock | None = None,
    patience_seconds: float = 60.0,
    cached: Backend | None = None,
) -> Writer:
    """A realm as a process of its own sees it: it waits for no other one's turn."""
    ids = ids or CountingIds()
    clock = clock or ManualClock(NOON)
    references = References(backend, REALM, clock, cached)
    objects = Objects(cached or backend, REALM, TYPES, clock, ids)
    commits = Committer(
        references, objects, Indexes(objects), ids, clock, FairLocks(), Random(7), patience_seconds
    )
    return Writer(backend, references, objects, commits, Log(references, objects))


def add(deed: str) -> Callable[[Attempt[Note]], Note]:
    """A change that adds one deed, with a paper of its own."""

    def change(attempt: Attempt[Note]) -> Note:
        head = attempt.head or Note()
        paper = attempt.write(Paper(text=deed))
        attempt.record(Change("add", deed.encode()))
        return Note(done=(*head.done, deed), papers=(*head.papers, paper))

    return change
