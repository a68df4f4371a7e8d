"""The states of realms: which way leads where, and who may use a realm in which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import ContendedError, RefusedError, UsageError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.realm import Realm
from lakesweep.store.realms.registry import RealmDefinition, RealmStatus
from tests.moments import NOON
from tests.stores import Note, Paper, add

#: Each state, by a way that leads to it.
WAYS: dict[str, Sequence[str]] = {
    "created": (),
    "initializing": ("initializing",),
    "loading": ("loading",),
    "active": ("initializing", "active"),
    "inactive": ("loading", "inactive"),
    "purging": ("initializing", "active", "inactive", "purging"),
    "purged": ("purging", "purged"),
}
STEPS = {
    *(("created", "initializing"), ("created", "loading"), ("created", "purging")),
    *(("initializing", "active"), ("initializing", "inactive"), ("initializing", "purging")),
    *(("loading", "active"), ("loading", "inactive"), ("loading", "purging")),
    *(("active", "inactive"), ("inactive", "active"), ("inactive", "purging")),
    ("purging", "purged"),
}
USES: dict[str, Callable[[Realm], object]] = {
    "commit": lambda realm: realm.commit("root", add("soup"), Note),
    "head": lambda realm: realm.head("root", Note),
    "log": lambda realm: list(realm.log("root")),
    "write": lambda realm: realm.objects.write(7, Paper("late")),
    "insert": lambda realm: realm.objects.insert(8, Paper("late")),
    "fetch": lambda realm: realm.objects.fetch(7, Paper),
    "create": lambda realm: realm.references.create("late"),
    "list": lambda realm: list(realm.references.list()),
    "recover": lambda realm: realm.recover("root"),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(MemoryBackend(), types={"note": Note, "paper": Paper}, clock=clock)


def _bring(store: Store, realm: RealmDefinition, ways: Sequence[str]) -> RealmDefinition:
    for status in ways:
        realm = store.realms.move(realm, RealmStatus(status))
    return realm


@pytest.mark.parametrize("status", WAYS)
def test_only_the_ways_of_the_state_machine_lead_on(store: Store, status: str) -> None:
    for other in map(str, RealmStatus):
        realm = _bring(store, store.realms.create(f"to-{other}"), WAYS[status])
        if (status, other) in STEPS:
            assert store.realms.move(realm, RealmStatus(other)).status == other
        else:
            with pytest.raises(RefusedError, match=f"is {status} and cannot become {other}"):
                store.realms.move(realm, RealmStatus(other))
            assert store.realms.get(realm.name) == realm


@pytest.mark.parametrize("status", WAYS)
def test_only_a_purged_realm_is_deleted(store: Store, status: str) -> None:
    realm = _bring(store, store.realms.create("acme"), WAYS[status])
    if status == "purged":
        store.realms.delete(realm)
    else:
        with pytest.raises(RefusedError, match="only purged realms can be deleted"):
            store.realms.delete(realm)
    assert [each.status for each in store.realms.list()] == [status] * (status != "purged")


@pytest.mark.parametrize("status", [status for status in WAYS if status != "active"])
def test_only_an_active_realm_is_opened(store: Store, status: str) -> None:
    _bring(store, store.realms.create("acme"), WAYS[status])
    with pytest.raises(RefusedError, match=f"realm acme is {status}"):
        store.realm("acme")


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_realm_ends_within_moments_of_its_being_closed(
    store: Store, clock: ManualClock, use: str
) -> None:
    realm = store.create_realm("acme")
    store.realms.move(store.realms.get("acme"), RealmStatus.INACTIVE)
    clock.sleep(VIEW_SECONDS)
    with pytest.raises(RefusedError, match="realm acme is inactive"):
        USES[use](realm)
    store.realms.move(store.realms.get("acme"), RealmStatus.ACTIVE)
    USES[use](realm)


def test_whoever_saw_an_older_state_changes_nothing(store: Store) -> None:
    realm = store.realms.create("acme")
    now = store.realms.move(realm, RealmStatus.LOADING)
    with pytest.raises(ContendedError, match="changed by another process"):
        store.realms.move(realm, RealmStatus.INITIALIZING)
    assert store.realms.get("acme") == now


@pytest.mark.parametrize("name", ["::mine", "::system::", "::"])
def test_names_of_the_system_are_not_for_realms(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="reserved for the system"):
        store.realms.create(name)
    with pytest.raises(UsageError, match="reserved for the system"):
        store.realm(name)
