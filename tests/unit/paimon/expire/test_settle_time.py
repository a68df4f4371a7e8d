"""Tags, branches and consumers that are being created while their snapshot expires."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import UnavailableError
from lakesweep.paimon.expire.expiry import ExpiryOutcome, apply_expiry, plan_expiry
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.paimon.expire.settle_time import SETTLE, wait_by_store
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from tests.moments import NOON
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import (
    ROOT,
    Bystander,
    Choose,
    ListedStore,
    MemoryJournals,
    changelogs_by,
    in_memory,
    journals,
    keep,
    missing_files,
    names,
)


def _expire(store: ListedStore, choose: Choose, act: Callable[[], None]) -> ExpiryOutcome:
    """Expire while others act as soon as the owners are gone."""
    table = PaimonTable.open(Stores(replace={ROOT: store}), ROOT, Bystander(act))
    log = MemoryJournals()
    with plan_expiry(table, choose(table), log.known) as plan:
        return apply_expiry(plan, table.stores, log)


@pytest.fixture
def java(java_tables: JavaWarehouses) -> JavaTable:
    return java_tables.table("branch_hole")


def test_a_tag_that_is_written_after_its_snapshot_went_keeps_all_its_files(java: JavaTable) -> None:
    store = in_memory(java)
    snapshot = names(store)["snapshot/snapshot-4"]

    def write_tag() -> None:
        assert "snapshot/snapshot-4" not in names(store)
        store.write("t/tag/tag-late", snapshot)

    _expire(store, keep(), write_tag)
    assert java.live()["main:snapshot-4"] <= names(store).keys()
    assert not missing_files(store, java)
    assert not journals(store)


def test_a_branch_that_is_written_after_its_snapshot_went_keeps_all_its_files(
    java: JavaTable,
) -> None:
    store = in_memory(java)
    snapshot, schema = (names(store)[name] for name in ("snapshot/snapshot-4", "schema/schema-0"))

    def write_branch() -> None:
        store.write("t/branch/branch-late/schema/schema-0", schema)
        store.write("t/branch/branch-late/snapshot/snapshot-4", snapshot)

    _expire(store, keep(), write_branch)
    assert java.live()["main:snapshot-4"] <= names(store).keys()


def test_a_consumer_that_is_written_meanwhile_gets_its_snapshots_back(java: JavaTable) -> None:
    store = in_memory(java)
    before = names(store)

    def write_consumer() -> None:
        store.write("t/consumer/consumer-late", json.dumps({"nextSnapshot": 5}).encode())

    outcome = _expire(store, keep(), write_consumer)
    left = sorted(name for name in names(store) if name.startswith("snapshot/snapshot-"))
    assert left == [f"snapshot/snapshot-{number}" for number in (5, 6, 7, 8)]
    assert names(store)["snapshot/EARLIEST"] == b"5"
    for number in (5, 6, 7):
        again = names(store)[f"snapshot/snapshot-{number}"]
        assert json.loads(again) == json.loads(before[f"snapshot/snapshot-{number}"])
        assert java.live()[f"main:snapshot-{number}"] <= names(store).keys()
    assert not missing_files(store, java)
    assert outcome.deleted[PaimonKind.SNAPSHOT] == 4


def test_a_consumer_that_is_written_meanwhile_gets_its_changelogs_back(
    java_tables: JavaWarehouses,
) -> None:
    java = java_tables.table("pk_decoupled")
    store = in_memory(java)

    def write_consumer() -> None:
        store.write("t/consumer/consumer-late", json.dumps({"nextSnapshot": 5}).encode())

    before = {name for name in names(store) if name.startswith("changelog/changelog-")}
    _expire(store, changelogs_by(RetentionOverrides(retain_min=1, retain_max=2)), write_consumer)
    left = {name for name in names(store) if name.startswith("changelog/changelog-")}
    assert left == before - {"changelog/changelog-4"}
    assert not missing_files(store, java)


def test_the_clock_of_the_store_counts() -> None:
    """Its clock moves by a second with each write, and ours by what we wait."""
    clock, store = ManualClock(NOON), ListedStore()
    table = PaimonTable(Stores(replace={ROOT: store}), parse(ROOT), clock)
    wait_by_store(table, f"{ROOT}/_lakesweep/expiry-1/", timedelta(seconds=4))
    assert clock.monotonic() == 4 + 3 + 2 + 1


def test_a_store_whose_clock_stands_still_is_not_trusted() -> None:
    store = ListedStore()
    store.write("t/_lakesweep/expiry-1/clock", b"")
    first = store.head("t/_lakesweep/expiry-1/clock")

    def stand_still(_: InterceptedCall) -> object:
        return first

    faulty = Faulty(store, [StorageFault(stand_still, frozenset({"head"}))])
    table = PaimonTable(Stores(replace={ROOT: faulty}), parse(ROOT), ManualClock(NOON))
    with pytest.raises(UnavailableError, match="clock of its store"):
        wait_by_store(table, f"{ROOT}/_lakesweep/expiry-1/", SETTLE)
