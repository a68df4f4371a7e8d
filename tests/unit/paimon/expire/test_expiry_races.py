"""Others are at work on the table between planning an expiry and carrying it out."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from lakesweep.errors import ChangedError, DamagedError, UnreadableError
from lakesweep.paimon.expire.expiry import ExpiryPlan, apply_expiry, plan_expiry
from lakesweep.paimon.expire.owner_copies import recover_owners
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, Recording, StorageFault
from tests.dict_store import Death
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import (
    MOMENT,
    ROOT,
    ListedStore,
    MemoryJournals,
    expire,
    in_memory,
    journals,
    keep,
    missing_files,
    names,
    open_table,
)


@pytest.fixture
def java(java_tables: JavaWarehouses) -> JavaTable:
    """Eight snapshots with compactions, and a branch."""
    return java_tables.table("branch_hole")


def _plan(store: ListedStore, most: int = 1) -> ExpiryPlan:
    table = open_table(store)
    return plan_expiry(table, keep(1, most)(table), MemoryJournals().known)


def _carry_out(plan: ExpiryPlan) -> None:
    apply_expiry(plan, plan.table.stores, MemoryJournals(), settle=MOMENT)


def test_two_runs_of_the_same_plan_do_no_harm(java: JavaTable) -> None:
    store, done = in_memory(java), in_memory(java)
    expire(done, keep())
    with _plan(store) as one, _plan(store) as other:
        _carry_out(one)
        _carry_out(other)
    assert names(store).keys() == names(done).keys()
    assert not missing_files(store, java)


@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1)])
def test_two_runs_of_different_plans_do_no_harm(java: JavaTable, first: int, second: int) -> None:
    store, done = in_memory(java), in_memory(java)
    expire(done, keep())
    with _plan(store, first) as one, _plan(store, second) as other:
        _carry_out(one)
        _carry_out(other)
    assert names(store).keys() == names(done).keys()
    assert names(store)["snapshot/EARLIEST"] == b"8"
    assert not missing_files(store, java)


def test_a_run_that_deletes_what_another_is_about_to_read_does_no_harm(
    java_tables: JavaWarehouses,
) -> None:
    """Where changelogs outlive snapshots, these are read once more when they go."""
    java = java_tables.table("pk_decoupled")
    before, done = in_memory(java), in_memory(java)
    undisturbed = Recording(done)
    expire(undisturbed, keep())
    key = min(key for key in undisturbed.keys("read") if "/snapshot/snapshot-" in key)
    for moment in range(undisturbed.keys("read").count(key)):
        store = before.copy_all()

        def step_in(call: InterceptedCall, store: ListedStore = store) -> object:
            expire(store, keep())
            return call.proceed()

        fault = StorageFault(step_in, frozenset({"read"}), key.__eq__, skip=moment, times=1)
        with suppress(ChangedError):
            expire(Faulty(store, [fault]), keep())
        assert names(store).keys() == names(done).keys(), moment


def test_a_tag_that_comes_meanwhile_keeps_all_its_files(java: JavaTable) -> None:
    store = in_memory(java)
    with _plan(store) as plan:
        store.write("t/tag/tag-late", names(store)["snapshot/snapshot-4"])
        _carry_out(plan)
    assert java.live()["main:snapshot-4"] <= names(store).keys()
    assert not missing_files(store, java)


def test_a_tag_that_comes_after_a_crash_keeps_all_its_files(java: JavaTable) -> None:
    store = in_memory(java)
    snapshot = names(store)["snapshot/snapshot-4"]
    log = _crash_before_files_go(store)
    assert "snapshot/snapshot-4" not in names(store)
    store.write("t/tag/tag-late", snapshot)
    expire(store, keep(), log=log)
    assert not journals(store)
    assert java.live()["main:snapshot-4"] <= names(store).keys()
    assert not missing_files(store, java)


def test_a_consumer_that_comes_meanwhile_stops_it(java: JavaTable) -> None:
    store = in_memory(java)
    with _plan(store) as plan:
        store.write("t/consumer/consumer-late", json.dumps({"nextSnapshot": 3}).encode())
        before = names(store)
        with pytest.raises(ChangedError):
            _carry_out(plan)
    assert names(store) == before
    assert not journals(store)


def test_a_rollback_meanwhile_stops_it(java: JavaTable) -> None:
    store = in_memory(java)
    with _plan(store) as plan:
        store.delete([f"t/snapshot/snapshot-{number}" for number in (6, 7, 8)])
        before = names(store)
        with pytest.raises(ChangedError):
            _carry_out(plan)
    assert names(store) == before
    assert not journals(store)


def _roll_back(store: ListedStore, number: int) -> None:
    """As Java does it: first the hint, then all newer snapshots."""
    store.write("t/snapshot/LATEST", str(number).encode())
    store.delete([f"t/snapshot/snapshot-{newer}" for newer in range(number + 1, 9)])


def _expire_while_rolled_back(store: ListedStore, method: str, key: str, number: int) -> None:
    """Expire all snapshots but the newest; the table is rolled back at the first call for a key."""

    def roll_back(call: InterceptedCall) -> object:
        _roll_back(store, number)
        return call.proceed()

    fault = StorageFault(roll_back, frozenset({method}), key.__eq__, times=1)
    expire(Faulty(store, [fault]), keep())


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("write", "t/snapshot/EARLIEST"),  # after everything was checked
        ("delete", "t/snapshot/snapshot-1"),  # after the last look at the hint
    ],
)
@pytest.mark.parametrize("target", [1, 3, 7])
def test_a_rollback_keeps_the_snapshot_that_it_leads_to(
    java: JavaTable, method: str, key: str, target: int
) -> None:
    store = in_memory(java)
    _expire_while_rolled_back(store, method, key, target)
    left = names(store)
    assert f"snapshot/snapshot-{target}" in left
    assert left["snapshot/LATEST"] == str(target).encode()
    assert int(left["snapshot/EARLIEST"]) == min(open_table(store).main.snapshot_ids())
    assert java.live()[f"main:snapshot-{target}"] <= left.keys()
    assert not missing_files(store, java)


def _kill_while_rolled_back(store: ListedStore, number: int, *, before: str) -> MemoryJournals:
    """A rollback comes as owners are deleted; the run is killed before the next call."""

    begun: list[bool] = []

    def roll_back(call: InterceptedCall) -> object:
        _roll_back(store, number)
        begun.append(True)
        return call.proceed()

    def kill(_: InterceptedCall) -> object:
        raise Death

    def comes_next(key: str) -> bool:
        return bool(begun) and key.startswith(before)

    first = StorageFault(roll_back, frozenset({"delete"}), "t/snapshot/snapshot-1".__eq__, times=1)
    then = StorageFault(kill, frozenset({"write"}), comes_next)
    log = MemoryJournals()
    with pytest.raises(Death):
        expire(Faulty(store, [first, then]), keep(), log=log)
    return log


@pytest.mark.parametrize("before", ["t/_lakesweep/", "t/snapshot/snapshot-", "t/snapshot/EARLIEST"])
@pytest.mark.parametrize("target", [1, 3, 7])
def test_a_kill_before_the_target_of_a_rollback_is_back_loses_nothing(
    java: JavaTable, target: int, before: str
) -> None:
    """It comes while the run waits, before the target is written, and before the hint is."""
    store = in_memory(java)
    log = _kill_while_rolled_back(store, target, before=before)
    assert list(recover_owners(open_table(store), log)) == (
        [] if before.endswith("EARLIEST") else [f"{ROOT}/snapshot/snapshot-{target}"]
    )
    assert names(store)["snapshot/EARLIEST"] == str(target).encode()
    expire(store, keep(), log=log)
    left = names(store)
    assert open_table(store).main.snapshot_ids() == [target]
    assert java.live()[f"main:snapshot-{target}"] <= left.keys()
    assert not missing_files(store, java)
    assert not journals(store)


def test_a_kill_without_a_rollback_brings_nothing_back(java: JavaTable) -> None:
    store = in_memory(java)
    log = _crash_before_files_go(store)
    assert not list(recover_owners(open_table(store), log))
    assert open_table(store).main.snapshot_ids() == [8]


def test_copies_that_somebody_planted_bring_nothing_back(java: JavaTable) -> None:
    store = in_memory(java)
    _kill_while_rolled_back(store, 3, before="t/snapshot/snapshot-")
    before = store.current()
    assert not list(recover_owners(open_table(store), MemoryJournals()))
    assert store.current() == before


def test_a_hint_that_was_behind_all_the_time_is_no_rollback(java: JavaTable) -> None:
    store = in_memory(java)
    store.write("t/snapshot/LATEST", b"5")
    expire(store, keep())
    assert open_table(store).main.snapshot_ids() == [8]


def test_a_snapshot_that_another_commit_replaced_stays_with_its_files(java: JavaTable) -> None:
    store = in_memory(java)
    with _plan(store) as plan:
        other = json.loads(names(store)["snapshot/snapshot-5"]) | {"id": 3}
        store.write("t/snapshot/snapshot-3", json.dumps(other).encode())
        _carry_out(plan)
    assert java.live()["main:snapshot-5"] <= names(store).keys()


def test_snapshots_below_a_gap_go_and_nobody_else_misses_anything(java: JavaTable) -> None:
    store = in_memory(java)
    store.delete(["t/snapshot/snapshot-3", "t/snapshot/snapshot-5"])
    expire(store, keep())
    left = [name for name in names(store) if name.startswith("snapshot/snapshot-")]
    assert left == ["snapshot/snapshot-8"]
    assert not missing_files(store, java)


def test_a_copy_of_a_table_does_not_finish_what_the_original_began(java: JavaTable) -> None:
    store = in_memory(java)
    log = _crash_before_files_go(store)
    for key, data in store.current().items():
        store.write(key.replace("t/", "copy/", 1), data)
    before = names(store)
    stores = Stores(replace={ROOT: store})
    table = PaimonTable.open(stores, "memory://bucket/copy")
    with plan_expiry(table, keep()(table), log.known) as plan:
        assert not plan.total_files
        assert [each.reason for each in plan.journals.ignored] == ["this store did not write it"]
    assert names(store) == before


@pytest.mark.parametrize("name", ["_dataset.json", ".parquet"])
def test_a_journal_that_was_changed_is_ignored_and_stays(java: JavaTable, name: str) -> None:
    store = in_memory(java)
    log = _crash_before_files_go(store)
    changed = next(key for key in journals(store) if key.endswith(name))
    store.write(changed, b"rubbish")
    before = store.current()
    table = open_table(store)
    with plan_expiry(table, keep()(table), log.known) as plan:
        assert (plan.total_files, len(plan.journals.ignored)) == (0, 1)
    expire(store, keep(), log=log)
    assert store.current() == before


def test_a_manifest_that_a_tag_needs_and_is_gone_stops_it(java_tables: JavaWarehouses) -> None:
    store = in_memory(java_tables.table("tag_alive"))
    tag = json.loads(names(store)["tag/tag-first"])
    store.delete([f"t/manifest/{tag['baseManifestList']}"])
    before = store.current()
    with pytest.raises(UnreadableError):
        expire(store, keep())
    assert store.current() == before


def test_a_snapshot_that_another_program_left_half_dead_goes(java: JavaTable) -> None:
    store = in_memory(java)
    snapshot = json.loads(names(store)["snapshot/snapshot-1"])
    store.delete([f"t/manifest/{snapshot[f'{which}ManifestList']}" for which in ("base", "delta")])
    expire(store, keep(1, 4))
    assert "snapshot/snapshot-1" not in names(store)
    assert not missing_files(store, java)


def test_a_branch_expires_by_itself_and_spares_the_others(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("branched")
    store = in_memory(java)
    expire(store, keep(branch="dev"))
    gone = names(in_memory(java)).keys() - names(store).keys()
    assert {name for name in gone if "snapshot-" in name} == {
        "branch/branch-dev/snapshot/snapshot-2",
        "branch/branch-dev/snapshot/snapshot-3",
    }
    assert names(store)["branch/branch-dev/snapshot/EARLIEST"] == b"4"
    assert not missing_files(store, java)


def test_newest_snapshots_that_were_lost_stop_it(java: JavaTable) -> None:
    """They may hold again what the ones before them had deleted."""
    store = in_memory(java)
    store.delete([f"t/snapshot/snapshot-{open_table(store).main.latest_id()}"])
    before = names(store)
    with pytest.raises(DamagedError, match="but the newest is"):
        expire(store, keep())
    assert names(store) == before


def test_a_branch_whose_name_has_a_slash_stops_it(java_tables: JavaWarehouses) -> None:
    """Its folder looks like that of a branch that holds nothing."""
    store = in_memory(java_tables.table("branch_hole"))
    for name, data in names(store).items():
        if name.startswith("branch/branch-side/"):
            store.write(f"t/{name.replace('branch-side/', 'branch-side/x/')}", data)
            store.delete([f"t/{name}"])
    before = names(store)
    with pytest.raises(DamagedError, match="branch-side/: holds no schema"):
        expire(store, keep())
    assert names(store) == before


def test_a_table_without_snapshots_has_nothing_to_expire(java_tables: JavaWarehouses) -> None:
    store = in_memory(java_tables.table("never_committed"))
    before = store.current()
    assert expire(store, keep())[0] == set()
    assert store.current() == before


def _crash_before_files_go(store: ListedStore) -> MemoryJournals:
    """Die when the snapshots are gone, and all the files that only they needed are there."""
    log = MemoryJournals()

    def die(_: InterceptedCall) -> None:
        raise Death

    def is_file(key: str) -> bool:
        return "/bucket-" in key or "/manifest/" in key

    with pytest.raises(Death):
        expire(Faulty(store, [StorageFault(die, frozenset({"delete"}), is_file)]), keep(), log=log)
    return log
