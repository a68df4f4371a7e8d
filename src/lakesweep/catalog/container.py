"""A container of entities behind one reference: read it, list it, and change it in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

import msgspec

from lakesweep.catalog.batch import Batch
from lakesweep.catalog.entities import Entity, kind_of
from lakesweep.catalog.heads import EntitiesCommit
from lakesweep.catalog.kinds import Kind
from lakesweep.catalog.mutations import (
    Create,
    Drop,
    Mutation,
    Outcome,
    Rename,
    Result,
    Status,
    Undrop,
)
from lakesweep.catalog.names import Name, join, split
from lakesweep.catalog.paging import PAGE_SIZE, Page
from lakesweep.catalog.snapshot import Snapshot, list_page
from lakesweep.errors import LakesweepError
from lakesweep.store import Attempt, Committed, Realm, Stored
from lakesweep.store.moments import micros

Head = TypeVar("Head", bound=EntitiesCommit)

_NO_COMMIT = 0


class EntityContainer(Generic[Head]):
    """The entities behind one reference. Threads may share it.

    A batch is one commit: all of it happens, or nothing. Whoever reads sees one commit as a whole.
    """

    def __init__(self, realm: Realm, reference: str, head: type[Head]) -> None:
        self.realm = realm
        self.reference = reference
        self._head_type = head

    def attempt(self, mutations: Sequence[Mutation], *, author: str = "") -> Outcome:
        """Make all mutations in one commit, and tell what became of each; it raises for none."""
        results: list[Result] = []

        def change(attempt: Attempt[Head]) -> Head | None:
            head = attempt.head or self._first_head()
            batch = self._batch(attempt, head)
            results[:] = batch.run(mutations)
            if any(result.error for result in results):
                raise _FailedError
            if all(result.status is Status.UNCHANGED for result in results):
                return None
            return msgspec.structs.replace(head, **batch.indexes())

        try:
            committed = self._commit(change, describe(mutations), author)
        except _FailedError:
            return Outcome([_undone(result) for result in results])
        head = committed.head if committed.changed else None
        return Outcome(results, None if head is None else head.id)

    def apply(self, mutations: Sequence[Mutation], *, author: str = "") -> Outcome:
        """Make all mutations in one commit. The first that fails is raised, and nothing is done."""
        outcome = self.attempt(mutations, author=author)
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def snapshot(self, *, fresh: bool = False) -> Snapshot[Head]:
        """All entities as the newest commit has them; with `fresh`, the newest of anybody."""
        return self._view(self.realm.head(self.reference, self._head_type, fresh=fresh))

    def get(self, name: Name) -> Entity:
        """The entity of a name. EntityMissingError if there is none."""
        return self.snapshot().get(name)

    def by_id(self, number: int) -> Entity:
        """The entity of an id, whatever it is called by now, or EntityMissingError."""
        return self.snapshot().by_id(number)

    def list(
        self,
        within: Name | None = None,
        kinds: Collection[Kind] | None = None,
        *,
        size: int = PAGE_SIZE,
        token: str | None = None,
    ) -> Page[Entity]:
        """A page of entities; its token asks for the next, of the same state.

        SnapshotExpiredError if that state is no longer kept.
        """
        path = () if within in {None, ()} else split(within or ())
        scope = "|".join([self.reference, join(path), *sorted(kinds or ())])
        return list_page(
            self.realm,
            lambda stored: self._view(stored) if stored else self.snapshot(),
            self._head_type,
            scope,
            token,
            within=path or None,
            kinds=kinds,
            size=size,
        )

    def _view(self, stored: Stored[Head] | None) -> Snapshot[Head]:
        return Snapshot(self.realm, stored or self._before_first())

    def _before_first(self) -> Stored[Head]:
        return Stored(_NO_COMMIT, self._first_head(), 0)

    def _first_head(self) -> Head:
        return self._head_type()

    def _batch(self, attempt: Attempt[Head], head: Head) -> Batch:
        return Batch(attempt, head, self.now(), self.realm.new_id)

    def _commit(
        self, change: Callable[[Attempt[Head]], Head | None], message: str, author: str = ""
    ) -> Committed[Head]:
        return self.realm.commit(
            self.reference, change, self._head_type, message=message, author=author
        )

    def now(self) -> int:
        """The present moment, in microseconds since 1970."""
        return micros(self.realm.clock.now())


class _FailedError(Exception):
    """Something in a batch failed, so that nothing of it is committed."""


def describe(mutations: Sequence[Mutation]) -> str:
    """What a batch does, in a few words for the log."""
    words = [_describe(mutation) for mutation in mutations[:3]]
    more = len(mutations) - len(words)
    return ", ".join([*words, *([f"and {more:,} more"] if more else [])])


def _describe(mutation: Mutation) -> str:
    try:
        name = join(split(mutation.name))
        match mutation:
            case Create():
                return f"create {kind_of(mutation.what).words} {name}"
            case Rename():
                return f"rename {name} to {join(split(mutation.to))}"
            case Drop():
                return f"drop {name}"
            case Undrop():
                return f"undrop {name}"
            case _:
                return f"update {name}"
    except LakesweepError:
        return "something that fails"


def _undone(result: Result) -> Result:
    return result if result.error else Result(Status.NOT_APPLIED)
