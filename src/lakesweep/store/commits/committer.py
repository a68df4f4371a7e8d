"""Commit: change everything behind one reference, all or nothing.

The objects of a commit are written first, then the reference is swapped, or both together if the
database can do that. Nothing is visible before the swap, so a crash before it leaves only unused
rows. The swap is the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import (
    ContendedError,
    ReferenceMissingError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
)
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.commit import TAIL_COMMITS, Change, Commit
from lakesweep.store.commits.fair_lock import FairLocks
from lakesweep.store.commits.optimistic_heads import OptimisticHead, OptimisticHeads
from lakesweep.store.commits.references import References
from lakesweep.store.index import Codec, IndexUpdate
from lakesweep.store.index.object_nodes import Indexes
from lakesweep.store.objects.links import IndexRoot, Link
from lakesweep.store.objects.objects import IdSource, Objects, Staged, Stored
from lakesweep.tracing import span

Head = TypeVar("Head", bound=Commit)
Kind = TypeVar("Kind")
V = TypeVar("V")

#: The longest pause after a lost swap; it gets shorter with each loss.
LOST_SWAP_SECONDS = 0.02
SHORTEST_SECONDS = 0.001
#: The longest pause after a failed request; pauses get longer with each failure.
FAILURE_SECONDS = 1.0
#: How often a missing head is looked up, since it may only be late.
HEAD_READS = 3


class Attempt(Generic[Head]):
    """The input of a change: the current head, and methods to write objects.

    A change may run several times, each time with a new attempt. It should have no side effects of
    its own.
    """

    def __init__(
        self, head: Stored[Head] | None, objects: Objects, indexes: Indexes, ids: IdSource
    ) -> None:
        self._objects = objects
        self._indexes = indexes
        self._ids = ids
        self.stored = head
        self.written: dict[int, msgspec.Struct] = {}
        self.changes: list[Change] = []

    @property
    def head(self) -> Head | None:
        """The head that the new one follows; None before the first commit."""
        return None if self.stored is None else self.stored.value

    def write(self, value: msgspec.Struct) -> Link:
        """Write an object together with the commit; returns its id, for links to it."""
        number = Link(self._ids.next())
        self.written[number] = value
        return number

    def index(self, root: IndexRoot, codec: Codec[V]) -> IndexUpdate[V]:
        """Changes to an index that the head embeds; `seal` creates its next state."""
        return self._indexes.update(root, codec, self.write)

    def record(self, *changes: Change) -> None:
        """Record for readers of the log what this commit changes."""
        self.changes.extend(changes)

    def reset(self) -> None:
        """Forget everything that was written and recorded, to begin again on the same head."""
        self.written.clear()
        self.changes.clear()

    def fetch(self, number: int, kind: type[Kind]) -> Kind | None:
        """An object, either stored already or written in this attempt."""
        value = self.written.get(number)
        if isinstance(value, kind):
            return value
        stored = self._objects.fetch(number, kind)
        return None if stored is None else stored.value


@dataclass(frozen=True, slots=True)
class Committed(Generic[Head]):
    """The head after a commit. Without a change it is the existing one, if any."""

    head: Stored[Head] | None
    changed: bool
    attempts: int


@dataclass(frozen=True, slots=True)
class _Plan(Generic[Head]):
    """A prepared commit: all its objects, and the reference to swap."""

    reference: Reference
    head: Stored[Head]
    staged: Staged


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits to the references of one realm.

    Threads of one process that share `locks` commit to a reference in the order of arrival. Against
    other processes a commit may have to retry; there is no waiting unless a swap was lost. After
    `patience_seconds` it gives up. A sole writer does not even read the reference first: a swap
    from a correct guess is just as good.
    """

    references: References
    objects: Objects
    indexes: Indexes
    ids: IdSource
    clock: Clock
    locks: FairLocks
    random: Random
    patience_seconds: float = 60.0
    expected_heads: OptimisticHeads = field(default_factory=OptimisticHeads)

    def commit(
        self,
        name: str,
        kind: type[Head],
        change: Callable[[Attempt[Head]], Head | None],
        *,
        message: str = "",
        author: str = "",
    ) -> Committed[Head]:
        """Replace the head of a reference by the result of `change`.

        `change` returns the new head, or None to change nothing; sequence number, tail, time,
        message, author and recorded changes are filled in. If `change` raises, nothing is
        committed. UnknownOutcomeError means that the commit may have happened; after any other
        error it did not.
        """
        deadline = self.clock.monotonic() + self.patience_seconds
        run = _Run(self, name, kind, change, {"message": message, "author": author}, deadline)
        # Within a process commits queue here, so that its threads do not make each other lose
        # swaps.
        with (
            span("store commit", reference=name),
            self.locks.take((self.references.realm, name), self.patience_seconds),
        ):
            return run.run()


@dataclass(slots=True)
class _Run(Generic[Head]):
    """One call of `commit`, over all its attempts."""

    commits: Committer
    name: str
    kind: type[Head]
    change: Callable[[Attempt[Head]], Head | None]
    labels: dict[str, str]
    deadline: float
    attempts: int = 0
    losses: int = 0
    failures: int = 0
    missing: int = 0
    leftovers: list[Stored[Any]] = field(default_factory=list)

    def run(self) -> Committed[Head]:
        try:
            while (committed := self._attempt()) is None:
                pass
            return committed
        finally:
            self._clean()

    def _attempt(self) -> Committed[Head] | None:
        self.attempts += 1
        guess = self.commits.expected_heads.guess(self.name)
        if guess is not None:
            return self._attempt_on(guess)
        try:
            reference = self.commits.references.fetch_for_update(self.name)
            head = self._load(reference)
            self.commits.expected_heads.observe(reference)
            plan = self._plan(reference, head)
        except UnreachableError:
            self._wait_after_failure()
            return None
        if plan is None:
            return Committed(head, changed=False, attempts=self.attempts)
        # A lost swap changed nothing, so the change is made again on the head that won.
        if not self._swap(plan):
            self._lose(plan)
            return None
        return Committed(plan.head, changed=True, attempts=self.attempts)

    def _attempt_on(self, guess: OptimisticHead) -> Committed[Head] | None:
        """An attempt that does not read the reference first.

        A swap that succeeds proves the guess right. Any other result means nothing, since the
        change may have seen an old head; so the next attempt reads.
        """
        plan = None
        # The change may fail on an outdated head although it would succeed on the current one.
        with suppress(Exception):
            head = self._recall(guess)
            plan = self._plan(guess.reference, head) if head else None
        if plan is not None and self._swap(plan):
            return Committed(plan.head, changed=True, attempts=self.attempts)
        if plan is not None:
            self._discard(plan)
        self.commits.expected_heads.forget(self.name)
        return None

    def _recall(self, guess: OptimisticHead) -> Stored[Head] | None:
        if guess.head is None:
            return self._fetch(guess.reference)
        return self.commits.objects.read(guess.head, self.kind)

    def _fetch(self, reference: Reference) -> Stored[Head] | None:
        if reference.pointer is None:
            return None
        with self.commits.references.reading_head(reference):
            return self.commits.objects.fetch(reference.pointer, self.kind)

    def _load(self, reference: Reference) -> Stored[Head] | None:
        head = self._fetch(reference)
        if head is None and reference.pointer is not None:
            self.missing += 1
            # Continuing with an empty state would discard everything that was ever committed.
            error = self.commits.references.missing_head(reference)
            raise error if self.missing >= HEAD_READS else UnreachableError(error.message)
        return head

    def _plan(self, reference: Reference, head: Stored[Head] | None) -> _Plan[Head] | None:
        commits = self.commits
        attempt = Attempt(head, commits.objects, commits.indexes, commits.ids)
        new = self.change(attempt)
        if new is None or new is attempt.head:
            return None
        position = _position(head, micros(self.commits.clock.now()))
        commit = msgspec.structs.replace(
            new, **position, **self.labels, changes=tuple(attempt.changes)
        )
        number = self.commits.ids.next()
        # Objects first, then the pointer. A crash in between leaves rows that nothing references,
        # never a reference to rows that do not exist.
        staged = self.commits.objects.stage({**attempt.written, number: commit})
        return _Plan(reference, staged.objects[-1], staged)

    def _swap(self, plan: _Plan[Head]) -> bool:
        """Whether the commit happened. Retried until that is certain, or time is up.

        Repeating the swap is safe: it names the version that it replaces, so at most one of its
        attempts takes effect, however late.
        """
        commits, in_doubt = self.commits, False
        try:
            while True:
                try:
                    rows = plan.staged.rows
                    moved = commits.references.commit(rows, plan.reference, plan.head.id)
                    if moved is not None:
                        commits.expected_heads.follow(moved, rows)
                        return True
                    if not in_doubt:
                        return False
                except UnknownOutcomeError:
                    in_doubt = True
                except UnreachableError:
                    pass
                # The outcome is unknown: look for our own commit id before trying again, never
                # guess.
                happened = self._find_outcome(plan)
                if happened is not None:
                    return happened
                self._wait_after_failure()
        except UnknownOutcomeError:
            raise
        except StoreError as error:
            if in_doubt:
                raise self._unknown(plan) from error
            self._discard(plan)
            raise

    def _lose(self, plan: _Plan[Head]) -> None:
        self._discard(plan)
        self.losses += 1
        # Frequent losers pause less, so that newcomers do not overtake them for ever.
        self._pause(max(SHORTEST_SECONDS, LOST_SWAP_SECONDS / self.losses))

    def _discard(self, plan: _Plan[Head]) -> None:
        # An atomic commit that lost left no rows to delete.
        if not self.commits.references.commits_are_atomic:
            self.leftovers.extend(plan.staged.objects)

    def _unknown(self, plan: _Plan[Head]) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"commit {plan.head.id} to reference {self.name!r} may or may not have happened",
            hint="lakesweep store log shows whether it did",
        )

    def _find_outcome(self, plan: _Plan[Head]) -> bool | None:
        """Whether the commit happened; None if that is unknown yet."""
        try:
            now = self.commits.references.fetch_for_update(self.name)
            return self._happened(plan, now)
        except UnreachableError:
            return None
        except (ReferenceMissingError, StoreError) as error:
            raise self._unknown(plan) from error

    def _happened(self, plan: _Plan[Head], now: Reference) -> bool | None:
        # The versions of a new reference say nothing about our commit.
        if now.created_at != plan.reference.created_at:
            raise self._unknown(plan)  # a new reference has this name
        if now.version <= plan.reference.version:
            return None  # not swapped yet, or a stale response
        # Each swap since then added one pointer, so there is only one position where ours can be.
        pointers = (now.pointer, *now.recent)
        position = now.version - plan.reference.version - 1
        if position < len(pointers):
            return pointers[position] == plan.head.id
        return self._is_in_log(plan, now)

    def _is_in_log(self, plan: _Plan[Head], now: Reference) -> bool:
        number = now.pointer
        while number is not None:
            commit = self.commits.objects.fetch(number, Commit)
            if commit is None:
                raise self._unknown(plan)
            if plan.head.id in commit.value.tail:
                return True
            older = commit.value.seq > plan.head.value.seq and commit.value.tail
            number = commit.value.tail[-1] if older else None
        return False

    def _wait_after_failure(self) -> None:
        self.failures += 1
        self._pause(min(FAILURE_SECONDS, SHORTEST_SECONDS * 2.0 ** min(self.failures, 20)))

    def _pause(self, longest: float) -> None:
        left = self.deadline - self.commits.clock.monotonic()
        if left <= 0:
            raise ContendedError(
                f"no commit to reference {self.name!r} in {self.attempts} attempts and "
                f"{self.commits.patience_seconds:.0f} seconds"
            )
        self.commits.clock.sleep(min(left, self.commits.random.uniform(0, longest)))

    def _clean(self) -> None:
        """Delete the objects of attempts that certainly did not happen."""
        # Only now: an attempt in doubt may still turn out to be the one that succeeded.
        if self.leftovers:
            try:
                self.commits.objects.delete(self.leftovers)
            except StoreError:
                return  # unused rows are harmless, and maintenance removes them


def _position(head: Stored[Head] | None, now: int) -> dict[str, Any]:
    """The fields that link a commit to the previous one. Times never go back along a log."""
    if head is None:
        return {"seq": 1, "tail": (), "committed_at": now}
    return {
        "seq": head.value.seq + 1,
        "tail": (head.id, *head.value.tail)[:TAIL_COMMITS],
        "committed_at": max(now, head.value.committed_at + 1),
    }
