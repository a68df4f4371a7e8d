from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import ContendedError, RealmExistsError
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import Reference
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.reserved_names import standing_names
from tests.moments import NOON


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(MemoryBackend(), clock=ManualClock(NOON)) as store:
        yield store


def test_a_new_realm_is_active_and_has_its_references(store: Store) -> None:
    realm = store.create_realm("acme", {"owner": "jane"})
    assert {reference.name for reference in realm.references.list()} == set(standing_names("acme"))
    definition = store.realms.get("acme")
    assert (definition.status, definition.properties) == (RealmStatus.ACTIVE, {"owner": "jane"})


@pytest.mark.parametrize("status", [RealmStatus.CREATED, RealmStatus.INITIALIZING])
def test_a_creation_that_was_begun_is_finished(store: Store, status: RealmStatus) -> None:
    begun = store.realms.create("acme", {"owner": "jane"})
    if status is not RealmStatus.CREATED:
        store.realms.move(begun, status)
    store.create_realm("acme")
    definition = store.realms.get("acme")
    assert (definition.status, definition.properties) == (RealmStatus.ACTIVE, {"owner": "jane"})


class Between(BackendWrapper):
    """Lets another process act, once, right before the realms are changed for the nth time."""

    def __init__(self, backend: Backend, turn: int, act: Callable[[], object]) -> None:
        super().__init__(backend)
        self.act, self.left = act, turn

    def commit(self, realm: str, rows: Any, new: Reference, expected: Reference) -> bool:
        self.left -= 1
        if self.left == 0:
            self.act()
        return super().commit(realm, rows, new, expected)


@pytest.mark.parametrize("properties", [None, {"owner": "jane"}])
@pytest.mark.parametrize("turn", [1, 2, 3])
@pytest.mark.parametrize("other_comes_to", [RealmStatus.INITIALIZING, RealmStatus.ACTIVE])
def test_processes_that_create_a_realm_at_once_come_to_an_active_one(
    turn: int, other_comes_to: RealmStatus, properties: Mapping[str, str] | None
) -> None:
    shared = MemoryBackend()
    other = Store(shared, clock=ManualClock(NOON))
    begun = other.realms.create("acme")

    def go_ahead() -> None:
        now = other.realms.get("acme")
        if other_comes_to is RealmStatus.ACTIVE:
            other.bootstrap(now)
        elif now.status is RealmStatus.CREATED:
            other.realms.move(now, other_comes_to)

    store = Store(Between(shared, turn, go_ahead), clock=ManualClock(NOON))
    if properties and other_comes_to is RealmStatus.ACTIVE and turn == 1:
        with pytest.raises(RealmExistsError):
            store.create_realm("acme", properties)
    else:
        store.create_realm("acme", properties)
    now = store.realms.get("acme")
    assert (now.status, now.created_at) == (RealmStatus.ACTIVE, begun.created_at)


def test_a_realm_that_is_purged_while_it_is_created_stays_purged() -> None:
    shared = MemoryBackend()
    other = Store(shared, clock=ManualClock(NOON))
    other.realms.create("acme")

    def purge() -> None:
        other.realms.move(other.realms.get("acme"), RealmStatus.PURGING)

    store = Store(Between(shared, 2, purge), clock=ManualClock(NOON))
    with pytest.raises(ContendedError):
        store.create_realm("acme")
    assert store.realms.get("acme").status is RealmStatus.PURGING


def test_whoever_finishes_a_creation_may_say_the_properties_anew(store: Store) -> None:
    store.realms.create("acme", {"owner": "jane"})
    store.create_realm("acme", {"owner": "joe"})
    assert store.realms.get("acme").properties == {"owner": "joe"}


@pytest.mark.parametrize("status", [RealmStatus.ACTIVE, RealmStatus.INACTIVE])
def test_a_realm_that_was_finished_is_not_created_again(store: Store, status: RealmStatus) -> None:
    store.create_realm("acme")
    if status is RealmStatus.INACTIVE:
        store.realms.move(store.realms.get("acme"), status)
    with pytest.raises(RealmExistsError):
        store.create_realm("acme")
    assert store.realms.get("acme").status is status
