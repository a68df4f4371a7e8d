"""Expiry that dies between any two steps, or meets any fault: nobody who stays loses a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.errors import DeniedError, LakesweepError, MissingError, UnavailableError
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.wrappers.faults import (
    Effect,
    Faulty,
    InterceptedCall,
    Recording,
    StorageFault,
    damage,
    fail,
    lose,
    refuse,
    truncate,
)
from tests.dict_store import Death
from tests.moments import NOON
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import (
    ListedStore,
    MemoryJournals,
    expire,
    in_memory,
    journals,
    keep,
    missing_files,
    names,
)

CHANGES = frozenset({"write", "write_new", "delete"})
READS = frozenset({"read", "read_range"})
LATER = NOON + timedelta(days=30)
#: One whose changelogs outlive its snapshots, one with changelogs, one with a branch.
TABLES = ("pk_decoupled", "prefixed", "branch_hole")


def _die(_: InterceptedCall) -> Any:
    raise Death


@pytest.mark.parametrize("name", TABLES)
def test_a_crash_before_any_change_is_finished_by_the_next_run(
    java_tables: JavaWarehouses, name: str
) -> None:
    """To die before a change is to die after the one before it."""
    java = java_tables.table(name)
    before, done, calls = _expired(java)
    changes = [call for call in calls if call[0] in CHANGES]
    for number in range(len(changes)):
        store, log = before.copy_all(), MemoryJournals()
        _expire_until_dead(_dying(store, number), log)
        assert not missing_files(store, java), changes[number]
        expire(store, keep(), LATER, log)
        assert names(store).keys() == names(done).keys(), changes[number]
        assert not journals(store), changes[number]
        assert not log.hashes, changes[number]


class _DyingLog(MemoryJournals):
    """The store's word on journals, from a run that dies before one of its calls."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call = call

    def vouch(self, address: str, sha256: str) -> None:
        self._die_in("vouch")
        super().vouch(address, sha256)

    def forget(self, address: str) -> None:
        self._die_in("forget")
        super().forget(address)

    def _die_in(self, call: str) -> None:
        if call == self._call:
            raise Death


@pytest.mark.parametrize("call", ["vouch", "forget"])
def test_a_crash_before_the_store_knows_is_finished_by_the_next_run(
    java_tables: JavaWarehouses, call: str
) -> None:
    java = java_tables.table("prefixed")
    store, done, _ = _expired(java)
    log = _DyingLog(call)
    _expire_until_dead(store, log)
    assert not missing_files(store, java)
    after = MemoryJournals(log.hashes)
    expire(store, keep(), LATER, after)
    assert names(store).keys() == names(done).keys()
    assert not journals(store)


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("pk_decoupled", fail(UnavailableError)),
        ("pk_decoupled", truncate(20)),
        ("tagged", damage(-1)),
    ],
)
def test_what_cannot_be_read_stops_it_before_anything_that_stays_is_harmed(
    java_tables: JavaWarehouses, name: str, effect: Effect
) -> None:
    java = java_tables.table(name)
    before, done, calls = _expired(java)
    for key in sorted(
        {key for method, key in calls if method in READS and "_lakesweep" not in key}
    ):
        store, log = before.copy_all(), MemoryJournals()
        with suppress(LakesweepError):
            expire(Faulty(store, [StorageFault(effect, READS, key.__eq__)]), keep(), log=log)
        assert not missing_files(store, java), key
        expire(store, keep(), LATER, log)
        assert names(store).keys() == names(done).keys(), key


@pytest.mark.parametrize("name", ["pk_decoupled", "branch_hole"])
def test_a_list_or_manifest_that_is_gone_costs_no_file_of_those_who_stay(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    before, _, calls = _expired(java)
    for key in sorted({key for method, key in calls if method in READS and "/manifest/" in key}):
        store = before.copy_all()
        with suppress(LakesweepError):
            expire(Faulty(store, [StorageFault(fail(MissingError), READS, key.__eq__)]), keep())
        assert not missing_files(store, java), key


def test_a_folder_of_owners_that_cannot_be_listed_stops_it_before_any_change(
    java_tables: JavaWarehouses,
) -> None:
    before, _, calls = _expired(java_tables.table("branch_hole"))
    listed = {key for method, key in calls if method == "list" and "_lakesweep" not in key}
    for prefix in sorted(listed):
        store = before.copy_all()
        fault = StorageFault(fail(DeniedError), frozenset({"list"}), prefix.__eq__)
        with pytest.raises(DeniedError):
            expire(Faulty(store, [fault]), keep())
        assert store.current() == before.current(), prefix


@pytest.mark.parametrize("effect", [lose, fail(DeniedError)])
def test_any_change_that_fails_is_made_up_for_by_the_next_run(
    java_tables: JavaWarehouses, effect: Effect
) -> None:
    java = java_tables.table("prefixed")
    before, done, calls = _expired(java)
    for number in range(sum(method in CHANGES for method, _ in calls)):
        store, log = before.copy_all(), MemoryJournals()
        faulty = Faulty(store, [StorageFault(effect, CHANGES, skip=number, times=1)])
        with suppress(LakesweepError):
            expire(faulty, keep(), log=log)
        assert not missing_files(store, java), number
        expire(store, keep(), LATER, log)
        assert names(store).keys() == names(done).keys(), number


def test_a_file_that_cannot_be_deleted_is_told_and_tried_again(
    java_tables: JavaWarehouses,
) -> None:
    java = java_tables.table("prefixed")
    before, done, _ = _expired(java)
    for name in sorted(names(before).keys() - names(done).keys()):
        store, log = before.copy_all(), MemoryJournals()
        fault = StorageFault(refuse(Outcome.DENIED, f"t/{name}".__eq__), frozenset({"delete"}))
        _, outcome = expire(Faulty(store, [fault]), keep(), log=log)
        assert [failure.path for failure in outcome.tally.failures] == [f"memory://bucket/t/{name}"]
        assert not missing_files(store, java), name
        expire(store, keep(), LATER, log)
        assert names(store).keys() == names(done).keys(), name


def _expired(java: JavaTable) -> tuple[ListedStore, ListedStore, Sequence[tuple[str, str]]]:
    """The table before, as an undisturbed run leaves it, and the calls that this takes."""
    before = in_memory(java)
    done = before.copy_all()
    store = Recording(done)
    expire(store, keep())
    return before, done, [(call.method, call.keys[0]) for call in store.calls if call.keys]


def _dying(store: ObjectStore, number: int) -> ObjectStore:
    """A store to which so many changes can be made."""
    return Faulty(store, [StorageFault(_die, CHANGES, skip=number)])


def _expire_until_dead(store: ObjectStore, log: MemoryJournals) -> None:
    with pytest.raises(Death):
        expire(store, keep(), log=log)
