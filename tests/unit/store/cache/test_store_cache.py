"""What a cache changes for those who use a store, and what it must not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import HeadMissingError, RefusedError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.cache.cache import REFERENCE_SECONDS
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.realm import Realm
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.store import CACHE_BYTES
from tests.asked_backend import AskedBackend
from tests.moments import NOON
from tests.stores import Note, Paper, add

_TYPES: Mapping[str, type[msgspec.Struct]] = {"note": Note, "paper": Paper}


class Processes:
    """Two stores over one database, each with a cache of its own."""

    def __init__(self, cache_bytes: int = 2**20) -> None:
        self.clock = ManualClock(NOON)
        self.memory = MemoryBackend()
        self.asked = AskedBackend(self.memory)
        self.one, self.other = (
            Store(self.asked, types=_TYPES, clock=self.clock, cache_bytes=cache_bytes)
            for _ in range(2)
        )

    def realms(self) -> tuple[Realm, Realm]:
        return self.one.create_realm("acme"), self.other.realm("acme")


def _done(realm: Realm, *, fresh: bool = False) -> tuple[str, ...]:
    head = realm.head("root", Note, fresh=fresh)
    return () if head is None else head.value.done


def test_a_head_is_read_once() -> None:
    processes = Processes()
    realm, other = processes.realms()
    other.commit("root", add("soup"), Note)
    assert _done(realm) == ("soup",)
    processes.asked.asked.clear()
    assert _done(realm) == ("soup",)
    assert not processes.asked.asked


def test_the_own_commit_is_seen_at_once_and_not_read() -> None:
    processes = Processes()
    realm, _ = processes.realms()
    realm.commit("root", add("soup"), Note)
    processes.asked.asked.clear()
    assert _done(realm) == ("soup",)
    assert not processes.asked.asked


def test_the_commit_of_another_is_seen_after_moments_or_when_asked_for() -> None:
    processes = Processes()
    realm, other = processes.realms()
    assert _done(realm) == ()
    other.commit("root", add("soup"), Note)
    assert _done(realm) == ()
    assert _done(realm, fresh=True) == ("soup",)
    other.commit("root", add("salad"), Note)
    processes.clock.sleep(REFERENCE_SECONDS)
    assert _done(realm) == ("soup", "salad")


def test_a_commit_builds_on_the_commit_of_another() -> None:
    processes = Processes()
    realm, other = processes.realms()
    for number in range(4):
        (realm, other)[number % 2].commit("root", add(str(number)), Note)
    assert _done(realm, fresh=True) == ("0", "1", "2", "3")
    assert [commit.value.seq for commit in realm.log("root")] == [4, 3, 2, 1]


def test_a_log_and_a_feed_are_never_behind() -> None:
    processes = Processes()
    realm, other = processes.realms()
    follower = realm.follow("root")
    assert not follower.poll()
    other.commit("root", add("soup"), Note)
    assert len(follower.poll()) == 1
    assert len(list(realm.log("root"))) == 1


def test_without_a_cache_every_read_asks() -> None:
    processes = Processes(cache_bytes=0)
    realm, other = processes.realms()
    other.commit("root", add("soup"), Note)
    for _ in range(2):
        processes.asked.asked.clear()
        assert _done(realm) == ("soup",)
        assert processes.asked.asked == {"references": 1, "objects": 1, "rows": 1}
    assert processes.one.cache.stats().entries == 0


def test_a_store_has_a_cache_unless_it_is_in_memory_anyway(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.create_tables(url)
    with Store.open(url) as store:
        assert store.cache.stats().max_bytes == CACHE_BYTES
    with Store.open(url, cache_bytes=5_000) as store:
        assert store.cache.stats().max_bytes == 5_000
    assert Store(MemoryBackend()).cache.stats().max_bytes == 0


def test_what_is_remembered_of_a_realm_is_not_given_out_once_it_is_closed() -> None:
    processes = Processes()
    realm, _ = processes.realms()
    realm.commit("root", add("soup"), Note)
    number = realm.references.fetch("root").pointer
    assert number is not None
    acme = processes.other.realms.get("acme")
    processes.other.realms.move(acme, RealmStatus.INACTIVE)
    processes.clock.sleep(VIEW_SECONDS)
    with pytest.raises(RefusedError, match="realm acme is inactive"):
        realm.objects.fetch(number, Note)
    with pytest.raises(RefusedError, match="realm acme is inactive"):
        realm.references.fetch("root")


def test_the_states_of_realms_are_never_old() -> None:
    processes = Processes()
    processes.realms()
    for status in (RealmStatus.INACTIVE, RealmStatus.ACTIVE):
        one = processes.one.realms.move(processes.one.realms.get("acme"), status)
        assert processes.other.realms.get("acme") == one
        assert list(processes.other.realms.list()) == [one]


def test_another_realm_of_the_same_name_has_none_of_the_objects_of_the_old_one() -> None:
    processes = Processes()
    realm, _ = processes.realms()
    realm.objects.write(5, Paper("old"))
    realms = processes.other.realms
    acme = realms.get("acme")
    for status in (RealmStatus.INACTIVE, RealmStatus.PURGING, RealmStatus.PURGED):
        acme = realms.move(acme, status)
    processes.clock.sleep(VIEW_SECONDS)
    processes.other.backend.delete_realm("acme")
    realms.delete(acme)
    again = processes.other.create_realm("acme")
    again.objects.write(5, Paper("new"))
    found = processes.one.realm("acme").objects.fetch(5, Paper)
    assert found is not None
    assert found.value == Paper("new")


def test_what_maintenance_deletes_is_not_remembered() -> None:
    processes = Processes()
    realm, _ = processes.realms()
    realm.objects.write(5, Paper("waste"))
    processes.one.backend.delete("acme", [RowKey(5)])
    assert realm.objects.fetch(5, Paper) is None


def test_a_recovery_goes_by_what_is_stored() -> None:
    processes = Processes()
    realm, other = processes.realms()
    heads = [realm.commit("root", add(name), Note).head for name in ("soup", "salad")]
    assert all(heads)
    lost = realm.references.fetch("root").pointer
    assert lost is not None
    processes.memory.delete("acme", [RowKey(lost)])
    assert _done(realm) == ("soup", "salad")
    with pytest.raises(HeadMissingError):
        _done(other)
    realm.recover("root")
    assert _done(realm) == ("soup",)
    assert _done(other) == ("soup",)


def test_rows_as_they_are_come_from_the_database() -> None:
    processes = Processes()
    realm, _ = processes.realms()
    realm.objects.write(5, Paper("soup"))
    processes.memory.delete("acme", [RowKey(5)])
    assert realm.objects.fetch(5, Paper) is not None
    assert not realm.backend.fetch("acme", [RowKey(5)])
