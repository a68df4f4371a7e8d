from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import RealmExistsError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.names import standing_names
from lakesweep.store.realms import RealmStatus
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
