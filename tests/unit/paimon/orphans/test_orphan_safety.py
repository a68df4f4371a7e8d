"""Where it is not known what a table uses, nothing of it is an orphan: in one process, or swept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import eq
from typing import cast

import pytest

from lakesweep.errors import DamagedError, IncompleteError, UnavailableError
from lakesweep.paimon.reach.owners import check_commits, list_branch
from lakesweep.storage.object_store import ObjectInfo
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, Recording, StorageFault, fail
from tests.moments import NOON
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import ListedStore, in_memory, missing_files, open_table
from tests.paimon_orphans import Clean, clean
from tests.paimon_sweeps import sweep


@pytest.fixture(params=[clean, sweep])
def cleaned(request: pytest.FixtureRequest) -> Clean:
    """Both ways to clean a table."""
    return cast("Clean", request.param)


def base_list(store: ListedStore) -> str:
    table = open_table(store)
    number = table.main.latest_id()
    assert number is not None
    return f"t/manifest/{table.main.snapshot(number).base_manifest_list}"


def lose_base_list(store: ListedStore) -> None:
    store.delete([base_list(store)])


def lose_snapshots_but_not_hints(store: ListedStore) -> None:
    store.delete([key for key in store.current() if key.startswith("t/snapshot/snapshot-")])


def lose_snapshots_and_hints(store: ListedStore) -> None:
    """The tags are left."""
    store.delete([key for key in store.current() if key.startswith("t/snapshot/")])


def lose_newest_snapshot(store: ListedStore) -> None:
    store.delete([f"t/snapshot/snapshot-{open_table(store).main.latest_id()}"])


def cut_lists(store: ListedStore) -> None:
    key = base_list(store)
    store.write(key, store.read(key)[:-40])


def empty_manifests(store: ListedStore) -> None:
    for key in [key for key in store.current() if key.startswith("t/manifest/manifest-")]:
        store.write(key, b"")


def lose_schema_of_branch(store: ListedStore) -> None:
    store.delete([key for key in store.current() if key.startswith("t/branch/branch-dev/schema")])


@pytest.mark.parametrize(
    "damage",
    [
        lose_base_list,
        lose_snapshots_but_not_hints,
        lose_snapshots_and_hints,
        lose_newest_snapshot,
        cut_lists,
        empty_manifests,
        lose_schema_of_branch,
    ],
)
def test_a_damaged_table_loses_nothing(
    java_tables: JavaWarehouses, cleaned: Clean, damage: Callable[[ListedStore], None]
) -> None:
    store = in_memory(java_tables.table("branched"))
    damage(store)
    before = store.current()
    with pytest.raises(IncompleteError):
        cleaned(store)
    assert store.current() == before


def test_a_table_that_lost_its_folder_of_snapshots_is_damaged(
    java_tables: JavaWarehouses,
) -> None:
    """It looks as if nothing had ever been committed, but for its lists of manifests."""
    store = in_memory(java_tables.table("append_plain"))
    lose_snapshots_and_hints(store)
    with pytest.raises(DamagedError, match="belongs to a commit, but there is no snapshot"):
        list_branch(open_table(store, NOON + timedelta(days=1)).main)
    assert not list_branch(open_table(store).main)  # young lists: a first commit may be under way


def test_a_table_that_looks_like_a_partition_of_another_loses_nothing(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    store = in_memory(java_tables.table("append_dt"))
    inner = {f"t/dt=x/{key[2:]}": data for key, data in _plain(java_tables).items()}
    for key, data in inner.items():
        store.write(key, data)
    planned, _ = cleaned(store)
    assert planned
    assert inner.keys() <= store.current().keys()


def _plain(java_tables: JavaWarehouses) -> Mapping[str, bytes]:
    return in_memory(java_tables.table("append_plain")).current()


def newest_snapshot(store: ListedStore) -> tuple[str, bytes]:
    """The newest snapshot, taken away: as if its commit were still to come."""
    number = open_table(store).main.latest_id()
    key = f"t/snapshot/snapshot-{number}"
    data = store.read(key)
    store.delete([key])
    store.write("t/snapshot/LATEST", str((number or 0) - 1).encode())
    return key, data


def test_what_is_committed_between_listing_and_reading_stays(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    java = java_tables.table("pk_dv")
    store = in_memory(java)
    snapshot = newest_snapshot(store)

    def commit(call: InterceptedCall) -> object:
        page = call.proceed()
        store.write(*snapshot)
        return page

    # The listing of the whole table, after which owners are read.
    fault = StorageFault(commit, frozenset({"list"}), key=lambda key: key == "t/", times=1)
    cleaned(Faulty(store, [fault]))
    assert snapshot[0] in store.current()
    assert not missing_files(store, java)


def test_what_is_committed_between_planning_and_deleting_stays(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    java = java_tables.table("pk_dv")
    store = in_memory(java)
    snapshot = newest_snapshot(store)
    planned, outcome = cleaned(store, lambda: store.write(*snapshot))
    assert outcome.spared
    assert len(planned & store.current().keys()) == outcome.spared
    assert not missing_files(store, java)


def test_a_commit_that_only_the_hint_tells_of_at_first_is_found(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    java = java_tables.table("pk_dv")
    store = in_memory(java)
    key, data = newest_snapshot(store)

    def commit(call: InterceptedCall) -> object:
        store.write(key, data)
        store.write("t/snapshot/LATEST", key.rpartition("-")[2].encode())
        return call.proceed()

    # When all owners that were listed have been read, and before the hint is.
    fault = StorageFault(
        commit, frozenset({"read"}), key=lambda key: key.endswith("LATEST"), times=1
    )
    planned, _ = cleaned(Faulty(store, [fault]))
    assert not missing_files(store, java)
    assert planned


def test_a_snapshot_that_expires_meanwhile_needs_nothing(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    store = in_memory(java_tables.table("append_plain"))
    first = open_table(store).main.snapshot(1)

    def expire(call: InterceptedCall) -> object:
        gone = ("snapshot/snapshot-1", f"manifest/{first.delta_manifest_list}")
        store.delete([f"t/{name}" for name in gone])
        return call.proceed()

    key = f"t/manifest/{first.delta_manifest_list}"
    fault = StorageFault(expire, frozenset({"read"}), key=lambda asked: asked == key, times=1)
    planned, outcome = cleaned(Faulty(store, [fault]))
    assert outcome.tally.deleted == len(planned)


def test_a_table_of_which_nothing_is_left_but_hints_while_it_is_read_loses_nothing(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    store = in_memory(java_tables.table("append_plain"))

    def expire(call: InterceptedCall) -> object:
        lose_snapshots_but_not_hints(store)
        return call.proceed()

    fault = StorageFault(expire, frozenset({"read"}), key=lambda key: "snapshot-" in key, times=1)
    before = {key for key in store.current() if not key.startswith("t/snapshot/")}
    with pytest.raises(IncompleteError):
        cleaned(Faulty(store, [fault]))
    assert before <= store.current().keys()


@pytest.mark.parametrize("method", ["list", "read"])
def test_a_call_without_an_answer_loses_nothing(
    java_tables: JavaWarehouses, cleaned: Clean, method: str
) -> None:
    before = in_memory(java_tables.table("branched"))
    recording = Recording(before.copy_all())
    cleaned(recording)
    keys = list(dict.fromkeys(recording.keys(method)))
    for key in keys if cleaned is clean else keys[::5]:  # a sweep takes its time
        store = before.copy_all()
        fault = StorageFault(fail(UnavailableError), frozenset({method}), key=partial(eq, key))
        with pytest.raises(IncompleteError):
            cleaned(Faulty(store, [fault]))
        assert store.current() == before.current()


def test_nothing_goes_when_new_owners_cannot_be_looked_for(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    store = in_memory(java_tables.table("branched"))
    before = store.current()
    failing: list[bool] = []
    fault = StorageFault(fail(UnavailableError), frozenset({"list"}), key=lambda _: bool(failing))
    with pytest.raises(IncompleteError):
        cleaned(Faulty(store, [fault]), lambda: failing.append(True))
    assert store.current() == before


def test_a_delete_that_fails_is_counted_and_the_others_go(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    store = in_memory(java_tables.table("pk_none"))
    fault = StorageFault(fail(UnavailableError), frozenset({"delete"}), times=1)
    planned, outcome = cleaned(Faulty(store, [fault]))
    left = planned & store.current().keys()
    assert len(left) == outcome.tally.failed > 0
    assert outcome.tally.deleted == len(planned) - len(left) > 0


def lose_snapshots_of_branch(store: ListedStore, *folders: str) -> None:
    beginnings = tuple(f"t/branch/branch-bare/{folder}/" for folder in folders)
    store.delete([key for key in store.current() if key.startswith(beginnings)])


def test_a_branch_that_lost_its_folder_of_snapshots_is_damaged(
    java_tables: JavaWarehouses, cleaned: Clean
) -> None:
    """It looks as if it had never been committed to, but for lists that nobody names."""
    store = in_memory(java_tables.table("branched"))
    lose_snapshots_of_branch(store, "snapshot")
    before = store.current()
    with pytest.raises(IncompleteError, match="and branch bare has no snapshot"):
        cleaned(store)
    assert store.current() == before
    for key in [key for key in before if key.startswith("t/branch/branch-bare/")]:
        store.delete([key])  # as the hint says
    assert cleaned(store)[0]


def test_a_branch_whose_consumer_has_read_a_snapshot_had_one(java_tables: JavaWarehouses) -> None:
    store = in_memory(java_tables.table("branched"))
    lose_snapshots_of_branch(store, "snapshot", "tag", "changelog")
    store.write("t/branch/branch-bare/consumer/consumer-a", b'{"nextSnapshot": 1}')
    assert not list_branch(open_table(store).branch("bare"))
    store.write("t/branch/branch-bare/consumer/consumer-a", b'{"nextSnapshot": 2}')
    with pytest.raises(DamagedError, match="refers to snapshots, but there are none"):
        list_branch(open_table(store).branch("bare"))


class YoungBranch(ListedStore):
    """A store in which a branch is three days younger than all else."""

    def head(self, key: str) -> ObjectInfo:
        info = super().head(key)
        assert info.modified is not None
        is_young = key.startswith("t/branch/")
        return replace(info, modified=info.modified + timedelta(days=3)) if is_young else info


def test_lists_that_are_older_than_a_branch_are_none_of_its_own(
    java_tables: JavaWarehouses,
) -> None:
    store = YoungBranch()
    for key, data in in_memory(java_tables.table("append_plain")).current().items():
        store.write(key, data)
    store.write("t/branch/branch-new/schema/schema-0", store.read("t/schema/schema-0"))
    table = open_table(store, NOON + timedelta(days=9))
    check_commits(table.branch("new"), frozenset())
    with pytest.raises(DamagedError, match="belongs to a commit"):
        check_commits(table.main, frozenset())
