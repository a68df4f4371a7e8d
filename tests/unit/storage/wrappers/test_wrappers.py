from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DeniedError, RefusedError, UnavailableError, UnsupportedError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.wrappers.base import ReadOnly
from lakesweep.storage.wrappers.faults import (
    Faulty,
    RecordedCall,
    Recording,
    StorageFault,
    damage,
    delay,
    fail,
    lose,
    refuse,
    truncate,
)


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path))
    for key in ("a", "b", "c"):
        store.write(key, b"0123456789")
    return store


MUTATIONS: list[Callable[[ObjectStore], object]] = [
    lambda store: store.write("a", b""),
    lambda store: store.write_new("new", b""),
    lambda store: store.delete(["a"]),
    lambda store: store.delete([]),
    lambda store: store.copy("a", "b"),
    lambda store: store.move("a", "d"),
    lambda store: store.undelete("a"),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_read_only_store_refuses_every_change(
    local: LocalStore, mutate: Callable[[ObjectStore], object]
) -> None:
    seen = Recording(local)
    with pytest.raises(RefusedError, match="read-only") as caught:
        mutate(ReadOnly(seen))
    assert caught.value.guard == "read-only"
    assert seen.calls == []


def test_a_read_only_store_can_be_read(local: LocalStore) -> None:
    store = ReadOnly(local)
    assert store.read("a") == b"0123456789"
    assert store.read_range("a", 2, 3) == b"234"
    assert store.head("a").size_bytes == 10
    assert store.list("").entries.num_rows == 3
    assert (store.base, store.capabilities) == (local.base, local.capabilities)


def test_a_recording_store_remembers_every_call(local: LocalStore) -> None:
    store = Recording(local)
    store.list("")
    store.head("a")
    store.read("a")
    store.read_range("b", 0, 1)
    store.write("d", b"")
    store.write_new("e", b"")
    store.copy("a", "f")
    store.move("f", "g")
    with pytest.raises(UnsupportedError):
        store.undelete("g")
    store.delete(["a", "b"])
    assert store.calls == [
        RecordedCall("list", ("",)),
        RecordedCall("head", ("a",)),
        RecordedCall("read", ("a",)),
        RecordedCall("read_range", ("b",)),
        RecordedCall("write", ("d",)),
        RecordedCall("write_new", ("e",)),
        RecordedCall("copy", ("a", "f")),
        RecordedCall("move", ("f", "g")),
        RecordedCall("undelete", ("g",)),
        RecordedCall("delete", ("a", "b")),
    ]
    assert store.keys("read", "delete") == ["a", "a", "b"]


def test_a_fault_befalls_the_calls_of_its_numbers(local: LocalStore) -> None:
    store = Faulty(local, [StorageFault(fail(DeniedError), frozenset({"read"}), skip=1, times=2)])
    store.head("a")
    answers = []
    for _ in range(5):
        try:
            answers.append(store.read("a")[:1])
        except DeniedError as error:
            answers.append(error.path.removeprefix(local.base).encode())
    assert answers == [b"0", b"a", b"a", b"0", b"0"]


def test_a_fault_befalls_the_keys_that_it_is_meant_for(local: LocalStore) -> None:
    store = Faulty(local, [StorageFault(fail(UnavailableError), key=lambda key: key == "b")])
    assert store.read("a") == b"0123456789"
    for call in (store.read, store.head):
        with pytest.raises(UnavailableError):
            call("b")
    with pytest.raises(UnavailableError):
        store.delete(["a", "b"])
    assert store.list("").entries.num_rows == 3


def test_the_first_fault_that_fits_wins_and_the_others_count_on(local: LocalStore) -> None:
    store = Faulty(local, [StorageFault(truncate(1), times=1), StorageFault(truncate(2), times=2)])
    assert [store.read("a") for _ in range(3)] == [b"0", b"01", b"0123456789"]


def test_a_lost_answer_has_had_its_effect(local: LocalStore) -> None:
    store = Faulty(local, [StorageFault(lose)])
    with pytest.raises(UnavailableError, match="lost"):
        store.write("new", b"data")
    with pytest.raises(UnavailableError):
        store.delete(["a"])
    with pytest.raises(UnavailableError):
        store.copy("b", "copy")
    with pytest.raises(UnavailableError):
        store.move("copy", "moved")
    keys = local.list("").entries.column("key").to_pylist()
    assert sorted(keys) == ["b", "c", "moved", "new"]


def test_bytes_can_be_cut_and_damaged(local: LocalStore) -> None:
    assert Faulty(local, [StorageFault(truncate(3))]).read("a") == b"012"
    assert Faulty(local, [StorageFault(damage(-1))]).read("a") == b"012345678\xc6"
    assert Faulty(local, [StorageFault(damage(0))]).read_range("a", 1, 2) == b"\xce2"


def test_an_answer_can_come_late(local: LocalStore) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    store = Faulty(local, [StorageFault(delay(clock, 5))])
    assert store.read("a") == b"0123456789"
    assert clock.monotonic() == 5


def test_single_keys_of_a_delete_can_be_refused(local: LocalStore) -> None:
    locked = StorageFault(refuse(Outcome.LOCKED, lambda key: key == "b"))
    outcomes = Faulty(local, [locked]).delete(["a", "b", "c"])
    assert [d.outcome for d in outcomes] == [Outcome.DELETED, Outcome.LOCKED, Outcome.DELETED]
    assert local.list("").entries.column("key").to_pylist() == ["b"]
