"""A container of entities behind one reference: read it, list it, change it in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

import msgspec

from lakesweep.catalog.commits import (
    BatchOutcome,
    Create,
    Drop,
    EntitiesCommit,
    Mutation,
    MutationResult,
    MutationStatus,
    Remember,
    Rename,
    Undrop,
)
from lakesweep.catalog.containers.entity_batch import EntityBatch
from lakesweep.catalog.containers.snapshot import (
    PAGE_SIZE,
    ContainerSnapshot,
    EntityPage,
    list_page,
)
from lakesweep.catalog.entities import Entity, EntityType, Name, join, kind_of, split
from lakesweep.clock import micros
from lakesweep.errors import LakesweepError
from lakesweep.store import Attempt, Committed, Realm, Stored

Head = TypeVar("Head", bound=EntitiesCommit)

_NO_COMMIT = 0


class EntityContainer(Generic[Head]):
    """The entities behind one reference. Threads may share it.

    A batch is one commit: all of it happens, or nothing. Readers see whole commits only.
    """

    def __init__(self, realm: Realm, reference: str, head: type[Head]) -> None:
        self.realm = realm
        self.reference = reference
        self._head_type = head

    def attempt(self, mutations: Sequence[Mutation], *, author: str = "") -> BatchOutcome:
        """Apply all mutations in one commit, and return the result of each; raises for none."""
        return self.attempt_all([mutations], author=author)[0]

    def attempt_all(
        self, batches: Sequence[Sequence[Mutation]], *, author: str = ""
    ) -> Sequence[BatchOutcome]:
        """Apply several batches in one commit, in their order.

        Each happens as a whole or not at all, whatever becomes of the others, and sees what those
        before it did.
        """
        results: list[list[MutationResult]] = []

        def change(attempt: Attempt[Head]) -> Head | None:
            head = attempt.head or self._first_head()
            batch, results[:] = self._run(attempt, head, batches)
            changed = [each for each in results if _changed(each)]
            if not changed:
                return None
            return msgspec.structs.replace(head, **batch.indexes())

        made = [each for mutations in batches for each in mutations]
        committed = self._commit(change, describe(made), author)
        head = committed.head if committed.changed else None
        number = None if head is None else head.id
        return [_outcome(each, number) for each in results]

    def _run(
        self, attempt: Attempt[Head], head: Head, batches: Sequence[Sequence[Mutation]]
    ) -> tuple[EntityBatch, list[list[MutationResult]]]:
        """Run all batches. One that fails halfway is left out of a second run.

        The batches before it do the same again, so it would fail again, too.
        """
        left_out: dict[int, list[MutationResult]] = {}
        while True:
            attempt.reset()
            running = self._batch(attempt, head)
            results: list[list[MutationResult]] = []
            for number, mutations in enumerate(batches):
                done = left_out.get(number) or running.run(mutations)
                results.append(done)
                if _is_half_done(done) and number not in left_out:
                    left_out[number] = done
                    break
            else:
                return running, results

    def apply(self, mutations: Sequence[Mutation], *, author: str = "") -> BatchOutcome:
        """Apply all mutations in one commit. Raises the first failure, and then changes nothing."""
        outcome = self.attempt(mutations, author=author)
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def snapshot(self, *, fresh: bool = False) -> ContainerSnapshot[Head]:
        """All entities as of the newest commit; with `fresh`, also commits of other processes."""
        return self._view(self.realm.head(self.reference, self._head_type, fresh=fresh))

    def get(self, name: Name) -> Entity:
        """The entity of a name. EntityMissingError if there is none."""
        return self.snapshot().get(name)

    def by_id(self, number: int) -> Entity:
        """The entity with this id, whatever its name. EntityMissingError if there is none."""
        return self.snapshot().by_id(number)

    def list(
        self,
        within: Name | None = None,
        kinds: Collection[EntityType] | None = None,
        *,
        size: int = PAGE_SIZE,
        token: str | None = None,
    ) -> EntityPage[Entity]:
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

    def _view(self, stored: Stored[Head] | None) -> ContainerSnapshot[Head]:
        return ContainerSnapshot(self.realm, stored or self._before_first())

    def _before_first(self) -> Stored[Head]:
        return Stored(_NO_COMMIT, self._first_head(), 0)

    def _first_head(self) -> Head:
        return self._head_type()

    def _batch(self, attempt: Attempt[Head], head: Head) -> EntityBatch:
        return EntityBatch(attempt, head, self.now(), self.realm.new_id)

    def _commit(
        self, change: Callable[[Attempt[Head]], Head | None], message: str, author: str = ""
    ) -> Committed[Head]:
        return self.realm.commit(
            self.reference, change, self._head_type, message=message, author=author
        )

    def now(self) -> int:
        """The current time, in microseconds since 1970."""
        return micros(self.realm.clock.now())


def _changed(results: Sequence[MutationResult]) -> bool:
    """Whether a batch has anything to commit."""
    if any(result.error for result in results):
        return False
    idle = {MutationStatus.UNCHANGED, MutationStatus.REMEMBERED}
    return any(result.status not in idle for result in results)


def _is_half_done(results: Sequence[MutationResult]) -> bool:
    """Whether a batch failed after some of it was done."""
    failed = [result for result in results if result.error]
    return bool(failed) and len(failed) < len(results)


def _outcome(results: Sequence[MutationResult], commit: int | None) -> BatchOutcome:
    if any(result.error for result in results):
        return BatchOutcome([_undone(result) for result in results])
    return BatchOutcome(results, commit if _changed(results) else None)


def describe(mutations: Sequence[Mutation]) -> str:
    """A short description of a batch for the log."""
    words = [_describe(mutation) for mutation in mutations[:3]]
    more = len(mutations) - len(words)
    return ", ".join([*words, *([f"and {more:,} more"] if more else [])])


def _describe(mutation: Mutation) -> str:
    if isinstance(mutation, Remember):
        return "remember the request"
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


def _undone(result: MutationResult) -> MutationResult:
    return result if result.error else MutationResult(MutationStatus.NOT_APPLIED)
