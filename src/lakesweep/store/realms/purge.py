"""Purge and delete realms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

from lakesweep.clock import Clock
from lakesweep.errors import ContendedError, RefusedError
from lakesweep.progress import SILENT, Progress, ProgressTask
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectHead, ReferenceGuard, RowKey, batches
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.registry import (
    RealmDefinition,
    RealmRegistry,
    RealmStatus,
    check_deletable,
)

Item = TypeVar("Item")

#: So often rows that came late are deleted, before somebody else has to look into it.
ROUNDS = 3
#: How many rows are deleted for one look at the state of their realm, and for how long it counts.
#: A process that was held up for longer looks again.
_BATCH_ROWS = 1_000
STATE_CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RealmSize:
    """How much a realm has."""

    references: int = 0
    rows: int = 0

    def __add__(self, other: RealmSize) -> RealmSize:
        return RealmSize(self.references + other.references, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class RealmPurger:
    """Deletes the rows of realms, and then the realms.

    No row goes unless its realm is, right before, in the state in which that is allowed. Where the
    database can look and delete in one step, nothing comes between. Elsewhere a process may be held
    up in between: it looks again before the next request, and the name of a deleted realm is not
    given away for much longer than a look counts. Every step can be repeated after a crash.

    `settle_seconds` is for how long other processes may still go by what they saw of a realm
    before; less than VIEW_SECONDS is only for who knows that there are no other processes.
    """

    realms: RealmRegistry
    backend: Backend
    clock: Clock
    progress: Progress = SILENT
    settle_seconds: float = VIEW_SECONDS

    def count(self, realm: str) -> RealmSize:
        """What a realm has now."""
        references = sum(1 for _ in self.backend.scan_references(realm))
        with self.progress.task("counted", unit="rows") as task:
            rows = sum(_counted(self.backend.scan_rows(realm), task))
        return RealmSize(references, rows)

    def purge(self, realm: RealmDefinition) -> RealmDefinition:
        """Delete all rows of a realm that is not active; a purge that was begun is gone on with."""
        return self.purge_counted(realm)[0]

    def purge_counted(self, realm: RealmDefinition) -> tuple[RealmDefinition, RealmSize]:
        """The same; and what was deleted row by row, where the database has no other way."""
        found = RealmSize()
        if realm.status is RealmStatus.PURGED:
            return realm, found
        check_purgeable(realm)
        if realm.status is not RealmStatus.PURGING:
            realm = self.realms.move(realm, RealmStatus.PURGING)
        self.clock.sleep(self.settle_seconds)
        for _ in range(ROUNDS):
            found += self._delete_all(realm)
            if self._is_empty(realm.name):
                return self.realms.move(realm, RealmStatus.PURGED), found
        raise ContendedError(
            f"somebody goes on writing to realm {realm.name}, although it is being purged",
            hint=f"end that process, then repeat lakesweep realm purge {realm.name}",
        )

    def delete(self, realm: RealmDefinition) -> RealmSize:
        """Forget a purged realm; what rows it still had, which somebody wrote too late."""
        check_deletable(realm)
        swept = self._delete_late(realm)
        self.realms.delete(realm)
        return swept

    def _delete_late(self, realm: RealmDefinition) -> RealmSize:
        if not self.backend.capabilities.atomic_commits:
            return self._delete_found(realm)
        late = self.count(realm.name)
        self._delete_all(realm)
        return late

    def _delete_all(self, realm: RealmDefinition) -> RealmSize:
        if not self.backend.capabilities.deletes_realms:
            return self._delete_found(realm)
        while not self.backend.delete_realm(realm.name, self._guard(realm)):
            pass  # the state of some realm was changed in between, and maybe of this one
        return RealmSize()

    def _guard(self, realm: RealmDefinition) -> ReferenceGuard:
        """What stays as it is for as long as the realm does."""
        guard = self.realms.guard()
        self.verify(realm)
        return guard

    def _delete_found(self, realm: RealmDefinition) -> RealmSize:
        """Delete row by row.

        What is deleted was found before the look at the realm. So of a later realm with the same
        name nothing can be among it but what an import brought back under the old ids.
        """
        return RealmSize(self._delete_references(realm), self._delete_rows(realm))

    def _delete_references(self, realm: RealmDefinition) -> int:
        deleted = 0
        for batch in _batches(self.backend.scan_references(realm.name)):
            look = StateCheck(self.clock, partial(self.verify, realm))
            for each in batch:
                look.refresh()
                deleted += self.backend.delete_reference(realm.name, each)
        return deleted

    def _delete_rows(self, realm: RealmDefinition) -> int:
        deleted = 0
        with self.progress.task("deleted", unit="rows") as task:
            for batch in _batches(self.backend.scan_rows(realm.name)):
                look = StateCheck(self.clock, partial(self.verify, realm))
                for some in batches(_keys(batch), self.backend.capabilities.batch_rows):
                    look.refresh()
                    self.backend.delete(realm.name, some)
                task.advance(len(batch))
                deleted += len(batch)
        return deleted

    def verify(self, realm: RealmDefinition) -> None:
        """RefusedError unless the realm is still as it was."""
        now = self.realms.get(realm.name)
        if now != realm:
            raise RefusedError(
                "realm-state",
                f"realm {realm.name} was changed by somebody else and is {now.status} now",
                hint=f"lakesweep realm show {realm.name}",
            )

    def _is_empty(self, realm: str) -> bool:
        references, rows = self.backend.scan_references(realm), self.backend.scan_rows(realm)
        return next(references, None) is None and next(rows, None) is None


class StateCheck:
    """A look at a realm, repeated when it no longer counts; `verify` looks, and raises to say no.

    Neither clock alone tells how long a process was held up: one may stand still while the machine
    sleeps, and the other may be set back.
    """

    def __init__(self, clock: Clock, verify: Callable[[], None]) -> None:
        self._clock = clock
        self._verify = verify
        self._until = (-inf, -inf)

    def refresh(self) -> None:
        """RefusedError unless the realm was moments ago as it should be."""
        while any(now >= until for now, until in zip(self._now(), self._until, strict=True)):
            steady, wall = self._now()  # as of before the look
            self._verify()
            self._until = (steady + STATE_CHECK_SECONDS, wall + STATE_CHECK_SECONDS)

    def _now(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.now().timestamp()


def check_purgeable(realm: RealmDefinition) -> None:
    """RefusedError if the realm is in use."""
    if realm.status is RealmStatus.ACTIVE:
        raise RefusedError(
            "realm-state",
            f"realm {realm.name} is active; nothing was deleted",
            hint=f"lakesweep realm deactivate {realm.name}",
        )


def _counted(rows: Iterator[Item], task: ProgressTask) -> Iterator[int]:
    for batch in _batches(rows):
        task.advance(len(batch))
        yield len(batch)


def _keys(rows: Sequence[ObjectHead]) -> list[RowKey]:
    return [RowKey(row.id, row.part) for row in rows]


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    while batch := list(islice(items, _BATCH_ROWS)):
        yield batch
