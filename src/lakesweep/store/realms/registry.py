"""The registry of realms, and the state machine of each.

    CREATED ─┬─ INITIALIZING ─┬─ ACTIVE ⇄ INACTIVE ── PURGING ── PURGED ── deleted
             └─ LOADING ──────┘

A realm that never became active can be purged as well. Purging cannot be undone. The name of a
purged realm stays taken until the realm is deleted. If the database cannot check the state of a
realm and delete its rows in one step, the name stays taken for another NAME_SECONDS: a process
that was suspended between the two must not find a new realm under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import (
    ContendedError,
    RealmExistsError,
    RealmMissingError,
    ReferenceMissingError,
    RefusedError,
    UsageError,
)
from lakesweep.store.backends.rows import ReferenceGuard
from lakesweep.store.commits.commit import Change, Commit
from lakesweep.store.commits.committer import Attempt
from lakesweep.store.index import IndexUpdate, Packed
from lakesweep.store.index.keys import key
from lakesweep.store.index.object_nodes import seal
from lakesweep.store.objects.links import NO_INDEX, IndexRoot
from lakesweep.store.reserved_names import REALMS, RESERVED

if TYPE_CHECKING:
    from lakesweep.store.realms.realm import Realm

#: How long the name of a deleted realm stays reserved.
NAME_SECONDS = 60

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class RealmStatus(StrEnum):
    """The state of a realm."""

    CREATED = "created"
    INITIALIZING = "initializing"
    LOADING = "loading"
    ACTIVE = "active"
    INACTIVE = "inactive"
    PURGING = "purging"
    PURGED = "purged"


_FOLLOWING: Mapping[RealmStatus, frozenset[RealmStatus]] = {
    RealmStatus.CREATED: frozenset(
        {RealmStatus.INITIALIZING, RealmStatus.LOADING, RealmStatus.PURGING}
    ),
    RealmStatus.INITIALIZING: frozenset(
        {RealmStatus.ACTIVE, RealmStatus.INACTIVE, RealmStatus.PURGING}
    ),
    RealmStatus.LOADING: frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE, RealmStatus.PURGING}),
    RealmStatus.ACTIVE: frozenset({RealmStatus.INACTIVE}),
    RealmStatus.INACTIVE: frozenset({RealmStatus.ACTIVE, RealmStatus.PURGING}),
    RealmStatus.PURGING: frozenset({RealmStatus.PURGED}),
    RealmStatus.PURGED: frozenset(),
}


class RealmDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one realm; times are microseconds since 1970."""

    name: str
    status: RealmStatus = RealmStatus.CREATED
    created_at: int
    updated_at: int
    properties: dict[str, str] = {}


class RealmsCommit(Commit, frozen=True, kw_only=True):
    """All realms as of one commit, and when recently deleted ones were deleted."""

    realms: IndexRoot = NO_INDEX
    deleted: dict[str, int] = msgspec.field(default_factory=dict)


_CODEC = Packed(RealmDefinition)
_RealmChange: TypeAlias = Callable[[IndexUpdate[RealmDefinition]], Change]


class RealmRegistry:
    """Creates realms, moves them from state to state, and deletes them, in one commit each.

    Callers pass the realm as they last saw it. If it has changed since, nothing is changed, and
    ContendedError is raised.
    """

    def __init__(self, system: Realm, clock: Clock) -> None:
        self._system = system
        self._clock = clock

    def create(self, name: str, properties: Mapping[str, str] | None = None) -> RealmDefinition:
        """Reserve a name. RealmExistsError if it is taken."""
        check_name(name)
        now = micros(self._clock.now())
        new = RealmDefinition(
            name=name, created_at=now, updated_at=now, properties=dict(properties or {})
        )

        def add(realms: IndexUpdate[RealmDefinition]) -> Change:
            if key(name) in realms:
                raise RealmExistsError(f"realm {name} already exists")
            realms.put(key(name), new)
            return Change("add", key(name))

        self._commit(add, f"create realm {name}", created=name)
        return new

    def guard(self) -> ReferenceGuard:
        """The reference that every change of any realm moves."""
        return ReferenceGuard(self._system.name, self._system.references.fetch_for_update(REALMS))

    def get(self, name: str) -> RealmDefinition:
        """One realm, as it is now. RealmMissingError if there is none of that name."""
        root = self._root()
        found = self._system.index(root, _CODEC).get(key(name))
        if found is None:
            raise RealmMissingError(
                f"realm {name} does not exist", hint="lakesweep realm list shows all realms"
            )
        return found

    def list(self) -> Iterator[RealmDefinition]:
        """All realms, by name."""
        return (found for _, found in self._system.index(self._root(), _CODEC).items())

    def move(self, expected: RealmDefinition, status: RealmStatus) -> RealmDefinition:
        """Move a realm to another state; RefusedError if that transition is not allowed."""
        if status not in _FOLLOWING[expected.status]:
            raise _no_transition(expected, status)
        return self._replace(expected, msgspec.structs.replace(expected, status=status))

    def set_properties(
        self, expected: RealmDefinition, properties: Mapping[str, str]
    ) -> RealmDefinition:
        """Replace all properties of a realm."""
        return self._replace(
            expected, msgspec.structs.replace(expected, properties=dict(properties))
        )

    def delete(self, expected: RealmDefinition) -> None:
        """Delete a purged realm, and free its name."""
        check_deletable(expected)

        def remove(realms: IndexUpdate[RealmDefinition]) -> Change:
            _check_unmoved(realms, expected)
            realms.remove(key(expected.name))
            return Change("remove", key(expected.name))

        self._commit(remove, f"delete realm {expected.name}", deleted=expected.name)

    def _replace(self, expected: RealmDefinition, new: RealmDefinition) -> RealmDefinition:
        now = max(micros(self._clock.now()), expected.updated_at + 1)
        new = msgspec.structs.replace(new, updated_at=now)

        def put(realms: IndexUpdate[RealmDefinition]) -> Change:
            _check_unmoved(realms, expected)
            realms.put(key(new.name), new)
            return Change("update", key(new.name))

        self._commit(put, f"realm {new.name} is {new.status}")
        return new

    def _commit(
        self, change: _RealmChange, message: str, *, created: str = "", deleted: str = ""
    ) -> None:
        def commit(attempt: Attempt[RealmsCommit]) -> RealmsCommit:
            head = attempt.head or RealmsCommit()
            reserved = self._reserved_names(head)
            _check_free(created, reserved)
            realms = attempt.index(head.realms, _CODEC)
            attempt.record(change(realms))
            gone = {deleted: micros(self._clock.now())} if deleted and self._reserves_names else {}
            return RealmsCommit(realms=seal(realms), deleted={**reserved, **gone})

        self._system.references.ensure([REALMS])
        self._system.commit(REALMS, commit, RealmsCommit, message=message)

    @property
    def _reserves_names(self) -> bool:
        return not self._system.backend.capabilities.atomic_commits

    def _reserved_names(self, head: RealmsCommit) -> dict[str, int]:
        since = micros(self._clock.now()) - NAME_SECONDS * 1_000_000
        return {name: moment for name, moment in head.deleted.items() if moment > since}

    def _root(self) -> IndexRoot:
        try:
            head = self._system.head(REALMS, RealmsCommit, fresh=True)
        except ReferenceMissingError:
            return NO_INDEX  # the system realm is created with the first realm
        return head.value.realms if head else NO_INDEX


def check_name(name: str) -> None:
    """UsageError unless a user's realm may have this name."""
    if name.startswith(RESERVED):
        raise UsageError(
            f"{name}: names that start with {RESERVED} are reserved for the system",
            hint="choose another name",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:140]!r} is not a valid realm name",
            hint="use 1 to 128 letters, digits, _ and -",
        )


def check_deletable(realm: RealmDefinition) -> None:
    """RefusedError unless the realm was purged."""
    if realm.status is not RealmStatus.PURGED:
        raise RefusedError(
            "realm-state",
            f"realm {realm.name} is {realm.status}; only purged realms can be deleted",
            hint=f"lakesweep realm purge {realm.name}",
        )


def _check_free(name: str, reserved: Collection[str]) -> None:
    if name in reserved:
        raise RefusedError(
            "realm-state",
            f"realm {name} was deleted moments ago, and its rows may still be being deleted",
            hint=f"try again in {NAME_SECONDS} seconds, or choose another name",
        )


def _check_unmoved(realms: IndexUpdate[RealmDefinition], expected: RealmDefinition) -> None:
    if realms.get(key(expected.name)) != expected:
        raise ContendedError(
            f"realm {expected.name} was changed by another process in the meantime",
            hint=f"lakesweep realm show {expected.name}",
        )


def _no_transition(realm: RealmDefinition, status: RealmStatus) -> RefusedError:
    states = ", ".join(sorted(_FOLLOWING[realm.status]))
    return RefusedError(
        "realm-state",
        f"realm {realm.name} is {realm.status} and cannot become {status}",
        hint=f"it can become {states}" if states else f"lakesweep realm delete {realm.name}",
    )
