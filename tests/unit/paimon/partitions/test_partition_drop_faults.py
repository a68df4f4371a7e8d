"""Drops that die, fail or lose answers anywhere: the table is as before, or the drop is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lakesweep.errors import (
    DamagedError,
    DeniedError,
    IncompleteError,
    LakesweepError,
    RefusedError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnreadableError,
    UnsupportedError,
)
from lakesweep.paimon.commit.snapshot_commit import check_exclusive
from lakesweep.paimon.partitions.partition_drop import DroppedPartitions, drop_partitions
from lakesweep.paimon.partitions.snapshot_partitions import SnapshotPartitions
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.wrappers.faults import (
    Effect,
    Faulty,
    InterceptedCall,
    Recording,
    StorageFault,
    damage,
    fail,
    lose,
)
from tests.dict_store import Death
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import ListedStore, in_memory, names, open_table
from tests.paimon_states import index_names, live_files, newest

CHANGES = ("write", "write_new", "delete")
FIRST, SECOND = "dt=2021-03-01", "dt=2021-03-02"


@pytest.fixture
def original(java_tables: JavaWarehouses) -> ListedStore:
    """A table of two partitions with index files."""
    return in_memory(java_tables.table("pk_dynamic"))


def _by_path(*paths: str) -> Callable[[SnapshotPartitions], list[bytes]]:
    return lambda survey: [data for data, it in survey.partitions.items() if it.path in paths]


def _drop(store: ObjectStore, *paths: str) -> DroppedPartitions:
    return drop_partitions(open_table(store).main, _by_path(*(paths or (FIRST,))))


def _partitions(store: ObjectStore) -> set[str]:
    """The partitions of the newest snapshot, read by fastavro; its index files are there too."""
    table = open_table(store)
    snapshot = newest(table)
    files = live_files(table, snapshot)
    assert snapshot.total_record_count == sum(
        entry["_FILE"]["_ROW_COUNT"] for entry in files.values()
    )
    assert all(table.exists(f"{table.address.path}index/{n}") for n in index_names(table, snapshot))
    return {path.partition("/")[0] for path in files}


def _calls(original: ListedStore, methods: tuple[str, ...]) -> list[tuple[str, str]]:
    recorded = Recording(original.copy_all())
    _drop(recorded)
    return [(call.method, call.keys[0]) for call in recorded.calls if call.method in methods]


def _die(_: InterceptedCall) -> Any:
    raise Death


def _die_after(call: InterceptedCall) -> Any:
    call.proceed()
    raise Death


def _snapshots(store: ObjectStore) -> list[int]:
    return open_table(store).main.snapshot_ids()


def test_nothing_is_committed_in_the_place_of_a_snapshot_that_was_lost(
    original: ListedStore,
) -> None:
    original.delete([f"t/snapshot/snapshot-{newest(open_table(original)).id}"])
    before = names(original)
    with pytest.raises(DamagedError, match="but the newest is"):
        _drop(original)
    assert names(original) == before


def test_a_drop_writes_its_files_then_the_snapshot_then_the_hint(original: ListedStore) -> None:
    calls = _calls(original, CHANGES)
    kinds = [(method, key.partition("t/")[2].rstrip("0123456789")[:14]) for method, key in calls]
    assert [method for method, _ in kinds] == ["write"] * 4 + ["write_new", "write"]
    assert [key for _, key in kinds[-2:]] == ["snapshot/snaps", "snapshot/LATES"]


@pytest.mark.parametrize("effect", [_die, _die_after])
def test_a_crash_at_any_write_leaves_the_table_as_it_was_or_the_drop_done(
    original: ListedStore, effect: Effect
) -> None:
    for number in range(len(_calls(original, CHANGES))):
        store = original.copy_all()
        fault = StorageFault(effect, frozenset(CHANGES), skip=number)
        with suppress(Death):
            _drop(Faulty(store, [fault]))
        assert names(original).items() - names(store).items() <= {
            ("snapshot/LATEST", names(original)["snapshot/LATEST"])
        }
        committed = len(_snapshots(store)) - len(_snapshots(original))
        assert _partitions(store) == ({SECOND} if committed else {FIRST, SECOND})
        _drop(store)
        assert _partitions(store) == {SECOND}


@pytest.mark.parametrize(
    "effect",
    [fail(DeniedError), fail(StorageError), fail(ThrottledError), fail(UnavailableError), lose],
)
def test_a_fault_at_any_write_has_exactly_one_effect_or_none(
    original: ListedStore, effect: Effect
) -> None:
    for number, (method, key) in enumerate(_calls(original, CHANGES)):
        store = original.copy_all()
        fault = StorageFault(effect, frozenset(CHANGES), skip=number, times=1)
        error = _error(Faulty(store, [fault]))
        committed = len(_snapshots(store)) - len(_snapshots(original))
        assert committed == (0 if error else 1), (method, key)
        assert _partitions(store) == ({SECOND} if committed else {FIRST, SECOND})
        if method == "write" and "LATEST" not in key:
            assert error is not None


def _error(store: ObjectStore) -> LakesweepError | None:
    """The error of a drop, if it fails."""
    try:
        _drop(store)
    except LakesweepError as error:
        return error
    return None


def test_a_write_that_fails_leaves_nothing_behind(original: ListedStore) -> None:
    for number in range(4):
        store = original.copy_all()
        fault = StorageFault(fail(DeniedError), frozenset({"write"}), skip=number, times=1)
        with pytest.raises(DeniedError):
            _drop(Faulty(store, [fault]))
        assert names(store) == names(original)


@pytest.mark.parametrize("effect", [fail(UnavailableError), damage(-1), fail(DeniedError)])
def test_what_cannot_be_read_stops_it_and_nothing_is_changed(
    original: ListedStore, effect: Effect
) -> None:
    for number, (_, key) in enumerate(_calls(original, ("read",))):
        store = original.copy_all()
        faulty = Faulty(store, [StorageFault(effect, frozenset({"read"}), skip=number)])
        error = _error(faulty)
        assert error is not None or "LATEST" in key, key
        if error is not None:
            assert names(store) == names(original), key


def test_a_commit_without_any_answer_is_told_and_nothing_of_it_is_removed(
    original: ListedStore,
) -> None:
    def lost_for_good(call: InterceptedCall) -> Any:
        raise UnavailableError(call.path, "no answer")

    store = original.copy_all()
    silent = StorageFault(lost_for_good, frozenset({"write_new"}))
    with pytest.raises(UnavailableError, match="whether the commit succeeded") as caught:
        _drop(Faulty(store, [silent]))
    assert "lakesweep-" in (caught.value.hint or "")
    assert len(names(store)) == len(names(original)) + 4


def _go_on(store: ListedStore) -> None:
    """Another commit comes, and what was the newest snapshot before it expires."""
    last = max(_snapshots(store))
    _drop(store, SECOND)
    store.delete([f"t/snapshot/snapshot-{last}"])


def _go_back(store: ListedStore) -> None:
    last = max(_snapshots(store))
    store.write("t/snapshot/LATEST", str(last - 1).encode())
    store.delete([f"t/snapshot/snapshot-{last}"])


@pytest.mark.parametrize(("is_made", "deed"), [(True, _go_on), (False, _go_back)])
def test_a_commit_without_an_answer_is_not_made_again_once_others_went_on_or_back(
    original: ListedStore, is_made: bool, deed: Callable[[ListedStore], None]
) -> None:
    store = original.copy_all()
    number = max(_snapshots(store)) + 1

    def effect(call: InterceptedCall) -> Any:
        if is_made:
            call.proceed()
        deed(store)
        raise UnavailableError(call.path, "no answer")

    with pytest.raises(UnavailableError, match="whether the commit succeeded"):
        _drop(Faulty(store, [StorageFault(effect, frozenset({"write_new"}), times=1)]))
    assert number not in _snapshots(store)


def test_a_missing_manifest_of_the_newest_snapshot_is_an_error_and_no_empty_table(
    original: ListedStore,
) -> None:
    table = open_table(original)
    store = original.copy_all()
    store.delete([f"t/manifest/{newest(table).base_manifest_list}"])
    with pytest.raises(UnreadableError, match="missing"):
        _drop(store)


def _meanwhile(store: ListedStore, deed: Callable[[], object]) -> Faulty:
    """A store in which something happens just before the first commit is made visible."""

    def effect(call: InterceptedCall) -> Any:
        deed()
        return call.proceed()

    return Faulty(store, [StorageFault(effect, frozenset({"write_new"}), times=1)])


def test_a_commit_that_came_first_is_built_upon(original: ListedStore) -> None:
    store = original.copy_all()
    done = _drop(_meanwhile(store, lambda: _drop(store, SECOND)), FIRST)
    last = max(_snapshots(original))
    assert done.snapshot is not None
    assert done.snapshot.id == last + 2
    assert _partitions(store) == set()
    # Of the attempt that lost, nothing is left.
    assert len(names(store).keys() - names(original)) == 2 * (4 + 1)


def test_a_drop_that_another_has_done_meanwhile_commits_nothing(original: ListedStore) -> None:
    store = original.copy_all()
    done = _drop(_meanwhile(store, lambda: _drop(store, FIRST)), FIRST)
    assert done == DroppedPartitions(None, ())
    assert len(_snapshots(store)) == len(_snapshots(original)) + 1


def test_others_who_always_come_first_end_it(original: ListedStore) -> None:
    store = original.copy_all()
    last = max(_snapshots(original))
    document = json.loads(store.read(f"t/snapshot/snapshot-{last}"))

    def come_first(call: InterceptedCall) -> Any:
        number = int(call.keys[0].rpartition("-")[2])
        store.write(call.keys[0], json.dumps({**document, "id": number}).encode())
        return call.proceed()

    with pytest.raises(IncompleteError, match="11 attempts conflicted"):
        _drop(Faulty(store, [StorageFault(come_first, frozenset({"write_new"}))]))
    assert len(_snapshots(store)) == len(_snapshots(original)) + 11
    assert names(store).keys() - names(original).keys() == {
        f"snapshot/snapshot-{last + at}" for at in range(1, 12)
    }


def test_a_hint_that_leads_to_a_gap_leads_no_commit_into_it(original: ListedStore) -> None:
    store = original.copy_all()
    last = max(_snapshots(original))
    document = json.loads(store.read(f"t/snapshot/snapshot-{last}"))
    newer = {**document, "id": last + 2}
    store.write(f"t/snapshot/snapshot-{last + 2}", json.dumps(newer).encode())
    store.write("t/snapshot/LATEST", str(last).encode())
    _drop(store)
    assert set(_snapshots(store)) == {*_snapshots(original), last + 2, last + 3}
    assert store.read("t/snapshot/LATEST") == str(last + 3).encode()


def test_a_store_that_cannot_create_exclusively_is_refused(original: ListedStore) -> None:
    store = original.copy_all()
    unable = StorageFault(
        fail(UnsupportedError, "has no conditional writes"), frozenset({"write_new"})
    )
    with pytest.raises(UnsupportedError, match="commits are not possible here: has no conditional"):
        _drop(Faulty(store, [unable]))
    assert names(store) == names(original)


@pytest.mark.parametrize(
    "options", [{"lock.enabled": "true"}, {"lock.type": "jdbc"}, {"metastore": "hive"}]
)
def test_a_table_that_a_catalog_locks_is_refused(
    original: ListedStore, options: dict[str, str]
) -> None:
    store = original.copy_all()
    schema = store.read("t/schema/schema-0").decode()
    extra = ", ".join(f'"{name}": "{value}"' for name, value in options.items())
    store.write(
        "t/schema/schema-0", schema.replace('"options" : {', f'"options" : {{{extra},').encode()
    )
    with pytest.raises(RefusedError, match="are locked by"):
        check_exclusive(open_table(store).main)


def test_manifests_that_contradict_each_other_stop_it(original: ListedStore) -> None:
    """The same list as base and as delta adds each file twice."""
    store = original.copy_all()
    snapshot = newest(open_table(store))
    path = f"t/snapshot/snapshot-{snapshot.id}"
    text = store.read(path).decode()
    base = store.read(f"t/manifest/{snapshot.base_manifest_list}")
    store.write(f"t/manifest/{snapshot.delta_manifest_list}", base)
    size = snapshot.delta_manifest_list_size
    text = text.replace(
        f'"deltaManifestListSize" : {size}', f'"deltaManifestListSize" : {len(base)}'
    )
    store.write(path, text.encode())
    before = names(store)
    with pytest.raises(DamagedError, match="is added twice"):
        _drop(store)
    assert names(store) == before
