"""Purge and delete realms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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

#: How many rounds of late writes are deleted before giving up.
ROUNDS = 3
#: How many rows are deleted after one check of their realm's state, and how long a check is valid.
#: A process that was suspended for longer checks again.
_BATCH_ROWS = 1_000
STATE_CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RealmSize:
    """The size of a realm."""

    references: int = 0
    rows: int = 0

    def __add__(self, other: RealmSize) -> RealmSize:
        return RealmSize(self.references + other.references, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class RealmPurger:
    """Deletes the rows of realms, and then the realms.

    No row is deleted unless its realm was, right before, in the state that allows it. If the
    database can check and delete in one step, nothing comes between. Otherwise a process may be
    suspended in between: it checks again before the next request, and the name of a deleted realm
    is not reused for much longer than a check is valid. Every step can be repeated after a crash.

    `settle_seconds` is how long other processes may still trust their earlier view of a realm; use
    less than VIEW_SECONDS only if there are no other processes.
    """

    realms: RealmRegistry
    backend: Backend
    clock: Clock
    progress: Progress = SILENT
    settle_seconds: float = VIEW_SECONDS

    def count(self, realm: str) -> RealmSize:
        """What a realm contains now."""
        references = sum(1 for _ in self.backend.scan_references(realm))
        with self.progress.task("counted", unit="rows") as task:
            rows = sum(_counted(self.backend.scan_rows(realm), task))
        return RealmSize(references, rows)

    def purge(self, realm: RealmDefinition) -> RealmDefinition:
        """Delete all rows of a realm that is not active; resumes an interrupted purge."""
        return self.purge_counted(realm)[0]

    def purge_counted(self, realm: RealmDefinition) -> tuple[RealmDefinition, RealmSize]:
        """The same, with the number of rows deleted one by one, if the database needs that."""
        found = RealmSize()
        if realm.status is RealmStatus.PURGED:
            return realm, found
        check_purgeable(realm)
        if realm.status is not RealmStatus.PURGING:
            realm = self.realms.move(realm, RealmStatus.PURGING)
        # Only now, with the new state committed: other processes may still write until their view
        # of
        # the old state expires.
        self.clock.sleep(self.settle_seconds)
        for _ in range(ROUNDS):
            found += self._delete_all(realm)
            # Late writes of processes with an old view may still arrive, so emptiness is verified,
            # not assumed.
            if self._is_empty(realm.name):
                return self.realms.move(realm, RealmStatus.PURGED), found
        raise ContendedError(
            f"another process keeps writing to realm {realm.name} during its purge",
            hint=f"stop that process, then run lakesweep realm purge {realm.name} again",
        )

    def delete(self, realm: RealmDefinition) -> RealmSize:
        """Delete a purged realm; returns the rows that were written too late."""
        check_deletable(realm)
        # Rows before the name: once the name is free, late rows would belong to a new realm.
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
            pass  # some realm changed in between, perhaps this one: verify it again
        return RealmSize()

    def _guard(self, realm: RealmDefinition) -> ReferenceGuard:
        """The guard, which stays unmoved as long as the realm stays as it is."""
        # The guard is read first: a change between it and the check moves it, and the delete fails.
        guard = self.realms.guard()
        self.verify(realm)
        return guard

    def _delete_found(self, realm: RealmDefinition) -> RealmSize:
        """Delete row by row.

        Everything deleted here was found before the check of the realm. So it cannot include rows
        of a later realm with the same name, except those that an import restored under the old ids.
        """
        return RealmSize(self._delete_references(realm), self._delete_rows(realm))

    def _delete_references(self, realm: RealmDefinition) -> int:
        deleted = 0
        for batch in batches(self.backend.scan_references(realm.name), _BATCH_ROWS):
            check = StateCheck(self.clock, partial(self.verify, realm))
            for each in batch:
                check.refresh()
                deleted += self.backend.delete_reference(realm.name, each)
        return deleted

    def _delete_rows(self, realm: RealmDefinition) -> int:
        deleted = 0
        with self.progress.task("deleted", unit="rows") as task:
            for batch in batches(self.backend.scan_rows(realm.name), _BATCH_ROWS):
                check = StateCheck(self.clock, partial(self.verify, realm))
                for some in batches(_keys(batch), self.backend.capabilities.batch_rows):
                    check.refresh()
                    self.backend.delete(realm.name, some)
                task.advance(len(batch))
                deleted += len(batch)
        return deleted

    def verify(self, realm: RealmDefinition) -> None:
        """RefusedError unless the realm is still as expected."""
        now = self.realms.get(realm.name)
        if now != realm:
            raise RefusedError(
                "realm-state",
                f"realm {realm.name} was changed by another process and is now {now.status}",
                hint=f"lakesweep realm show {realm.name}",
            )

    def _is_empty(self, realm: str) -> bool:
        references, rows = self.backend.scan_references(realm), self.backend.scan_rows(realm)
        return next(references, None) is None and next(rows, None) is None


class StateCheck:
    """A check of a realm's state, repeated once it expires; `verify` raises to refuse.

    Neither clock alone shows how long a process was suspended: one may stop while the machine
    sleeps, and the other may be set back.
    """

    def __init__(self, clock: Clock, verify: Callable[[], None]) -> None:
        self._clock = clock
        self._verify = verify
        self._until = (-inf, -inf)

    def refresh(self) -> None:
        """RefusedError unless the realm was in the right state moments ago."""
        while any(now >= until for now, until in zip(self._now(), self._until, strict=True)):
            steady, wall = self._now()  # before the check, not after: the check may take long
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
    for batch in batches(rows, _BATCH_ROWS):
        task.advance(len(batch))
        yield len(batch)


def _keys(rows: Sequence[ObjectHead]) -> list[RowKey]:
    return [RowKey(row.id, row.part) for row in rows]
