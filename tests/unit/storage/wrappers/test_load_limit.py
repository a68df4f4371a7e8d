"""Limits of requests, bytes and connections, and what is counted."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import ThrottledError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import Expected, ObjectInfo
from lakesweep.storage.options import DeleteRate, LoadLimits, StorageOptions
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.storage.wrappers.load_limit import LoadLimited, StoreLoad
from lakesweep.storage.wrappers.run_load import RunLoad, report_loads
from lakesweep.storage.wrappers.used_load import LoadCounter, UsedLoad


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path))
    store.write("a", b"0123456789")
    return store


def limited(local: LocalStore, clock: ManualClock, **limits: float) -> LoadLimited:
    load = StoreLoad(clock, LoadLimits(**limits), LoadCounter())  # type: ignore[arg-type]
    return LoadLimited(local, load)


def test_requests_a_second_are_held(local: LocalStore, clock: ManualClock) -> None:
    store = limited(local, clock, requests_per_second=10)
    for _ in range(11):
        store.head("a")
        store.list("")
        store.read("a")
    assert clock.monotonic() == pytest.approx(3.2)


def test_bytes_a_second_are_held(local: LocalStore, clock: ManualClock) -> None:
    store = limited(local, clock, bytes_per_second=20)
    for _ in range(11):
        store.read("a")
    assert clock.monotonic() == pytest.approx(5)


def test_written_bytes_count_as_well(local: LocalStore, clock: ManualClock) -> None:
    store = limited(local, clock, bytes_per_second=20)
    for number in range(11):
        store.write(f"b{number}", b"0123456789")
    assert clock.monotonic() == pytest.approx(5)


def test_no_more_requests_are_in_flight(local: LocalStore, clock: ManualClock) -> None:
    class Slow(StoreWrapper):
        in_flight, most, lock = 0, 0, threading.Lock()

        def head(self, key: str) -> ObjectInfo:
            with self.lock:
                Slow.in_flight += 1
                Slow.most = max(Slow.most, Slow.in_flight)
            found = self.store.head(key)
            threading.Event().wait(0.005)
            with self.lock:
                Slow.in_flight -= 1
            return found

    load = StoreLoad(clock, LoadLimits(max_connections=3), LoadCounter())
    store = LoadLimited(Slow(local), load)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(store.head, ["a"] * 48))
    assert Slow.most == 3


def test_all_that_is_used_is_counted(local: LocalStore, clock: ManualClock) -> None:
    counter = LoadCounter()
    store = LoadLimited(local, StoreLoad(clock, LoadLimits(requests_per_second=1), counter))
    store.list("")
    store.read_range("a", 0, 4)
    store.write("b", b"12")
    store.move("b", "c")
    store.delete(["a", "c"], [Expected(10, 1), Expected(2, 1, "etag")])
    assert counter.used() == UsedLoad(
        requests={"delete": 2, "list": 1, "move": 4, "read": 1, "write": 1},
        bytes_read=4,
        bytes_written=2,
        throttled_seconds=7.0,
    )


def test_refusals_of_the_store_are_counted(local: LocalStore, clock: ManualClock) -> None:
    class Busy(StoreWrapper):
        def head(self, key: str) -> ObjectInfo:
            raise ThrottledError(key, "slow down")

    counter = LoadCounter()
    store = LoadLimited(Busy(local), StoreLoad(clock, LoadLimits(), counter))
    with pytest.raises(ThrottledError):
        store.head("a")
    assert counter.used().throttled_requests == 1


def test_tasks_and_the_driver_divide_every_limit(clock: ManualClock) -> None:
    load = RunLoad(clock, {"lake": 4.0}, tasks=3)
    part = pickle.loads(pickle.dumps(load))
    task = part.clock

    requests = part.store("s3://a", LoadLimits(requests_per_second=4))
    for _ in range(3):
        with requests.request("head"):
            pass
    assert task.monotonic() == pytest.approx(2)
    deletes = part.deletes("s3://a", DeleteRate(files_per_second=4))
    for _ in range(3):
        deletes.wait(1)
    assert task.monotonic() == pytest.approx(4)
    for _ in range(3):
        part.catalog("lake")()
    assert task.monotonic() == pytest.approx(6)


def test_the_driver_has_everything_while_no_task_runs(clock: ManualClock) -> None:
    load = RunLoad(clock, tasks=3)
    requests = load.store("s3://a", LoadLimits(requests_per_second=4))
    for _ in range(5):
        with requests.request("head"):
            pass
    assert clock.monotonic() == pytest.approx(1)
    with load.divided():
        for _ in range(3):
            with requests.request("head"):
                pass
    assert clock.monotonic() == pytest.approx(1 + 0.25 + 2)


def test_tasks_of_one_process_share_its_part() -> None:
    load = RunLoad(tasks=2)
    one, other = (pickle.loads(pickle.dumps(load)) for _ in range(2))
    assert one is other


def test_all_stores_of_a_run_share_the_limits_of_a_bucket(clock: ManualClock) -> None:
    options = {"memory://shared": StorageOptions(requests_per_second=10)}
    stores = Stores(options, clock=clock)
    vended = stores.with_defaults({"s3://": StorageOptions()})
    for _ in range(3):
        stores.open("memory://shared/a").write("a", b"")
        vended.open("memory://shared/a").write("b", b"")
    assert clock.monotonic() == pytest.approx(0.5)


def test_tasks_report_what_they_used(tmp_path: Path) -> None:
    stores = Stores(load=RunLoad(tasks=2))
    stores.load.folder = f"{tmp_path}/load"
    stores.open("memory://told/a").write("a", b"12345")

    task = pickle.loads(pickle.dumps(stores))
    task.open("memory://of-task/a").write("a", b"123")
    report_loads()

    used = stores.load.used()
    assert used.requests == {"write": 2}
    assert used.bytes_written == 8


@pytest.mark.parametrize(("limits", "most"), [([], None), ([8], 7), ([8, 3], 2), ([1], 1)])
def test_each_task_has_a_connection(limits: list[int], most: int | None) -> None:
    options = {f"s3://{n}": StorageOptions(max_connections=n) for n in limits}
    assert Stores(options).most_tasks == most
