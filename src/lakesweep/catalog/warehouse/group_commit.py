"""Group commit: changes that wait for their turn in one process are made as one commit.

All tables of a catalog share one reference, and a commit of it costs the same for one change as for
fifty. So whoever comes while a commit is being made waits, and the next commit takes all who wait.
Each change still has its own checks and its own answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.commits import BatchOutcome, Mutation
from lakesweep.errors import UnknownOutcomeError
from lakesweep.store.backends.wrapper import ProcessOwner

#: A commit takes at most this many, so that nobody waits for a huge one.
_MOST = 64
#: Names in the log of who made one commit together.
_MOST_AUTHORS = 5


@dataclass(eq=False, slots=True)
class _Waiter:
    """One change, and what became of it. It leads the next commit if it is woken without one."""

    mutations: Sequence[Mutation]
    author: str
    outcome: BatchOutcome | None = None
    error: BaseException | None = None
    woken: threading.Event = field(default_factory=threading.Event)


class GroupCommits:
    """Commits to catalogs, made together where they would wait for each other. Threads share it."""

    def __init__(self) -> None:
        self._owner = ProcessOwner()
        self._lock = threading.Lock()
        #: Those who wait while a commit is being made, by the reference.
        self._waiting: dict[tuple[str, str], deque[_Waiter]] = {}

    def apply(
        self, catalog: Catalog, mutations: Sequence[Mutation], *, author: str = ""
    ) -> BatchOutcome:
        """Apply a batch, all or nothing. Raises its first failure, and then it changed nothing.

        UnknownOutcomeError means the same as for any other commit.
        """
        self._owner.check()
        me = _Waiter(mutations, author)
        place = (catalog.realm.name, catalog.reference)
        with self._lock:
            queue = self._waiting.get(place)
            # An empty queue means a commit is under way; later changes join the queue.
            if queue is None:
                self._waiting[place] = deque()
            else:
                queue.append(me)
        if queue is not None:
            me.woken.wait()
        if me.outcome is None and me.error is None:
            self._lead(catalog, place, me)
        if me.error is not None:
            raise me.error
        assert me.outcome is not None
        if me.outcome.error is not None:
            raise me.outcome.error
        return me.outcome

    def _lead(self, catalog: Catalog, place: tuple[str, str], me: _Waiter) -> None:
        """Make one commit for all who wait, then let the next of them lead."""
        with self._lock:
            queue = self._waiting[place]
            group = [me, *(queue.popleft() for _ in range(min(len(queue), _MOST - 1)))]
        # Whatever happens, every follower is woken with an answer, and someone leads the next
        # group: a thread that waited for ever would hold a connection for ever.
        try:
            _commit(catalog, group)
        finally:
            for each in group[1:]:
                # The leader was interrupted. Its commit may have happened, so no one is told that
                # it did not.
                if each.outcome is None and each.error is None:
                    each.error = UnknownOutcomeError("the commit of a group was interrupted")
                each.woken.set()
            self._hand_over(place)

    def _hand_over(self, place: tuple[str, str]) -> None:
        with self._lock:
            queue = self._waiting[place]
            if queue:
                queue.popleft().woken.set()
            else:
                del self._waiting[place]


def _commit(catalog: Catalog, group: Sequence[_Waiter]) -> None:
    authors = sorted({each.author for each in group})
    more = [f"and {len(authors) - _MOST_AUTHORS} more"] if len(authors) > _MOST_AUTHORS else []
    author = ", ".join([*authors[:_MOST_AUTHORS], *more])
    try:
        outcomes = catalog.attempt_all([each.mutations for each in group], author=author)
    except Exception as error:
        for each in group:
            each.error = error
        return
    for each, outcome in zip(group, outcomes, strict=True):
        each.outcome = outcome
