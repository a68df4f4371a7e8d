from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter, RateLimited, TokenBucket


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def keys(number: int) -> list[str]:
    return [f"k{index}" for index in range(number)]


def test_files_a_second_are_held(tmp_path: Path, clock: ManualClock) -> None:
    store = RateLimited(
        LocalStore(str(tmp_path)), DeleteLimiter(clock, DeleteRate(files_per_second=100))
    )
    for _ in range(11):
        store.delete(keys(50))
    assert clock.monotonic() == pytest.approx(5)


def test_batches_a_second_are_held(tmp_path: Path, clock: ManualClock) -> None:
    store = RateLimited(
        LocalStore(str(tmp_path)), DeleteLimiter(clock, DeleteRate(batches_per_second=2))
    )
    for _ in range(11):
        store.delete(keys(3))
    assert clock.monotonic() == pytest.approx(5)


def test_the_narrower_of_both_limits_counts(tmp_path: Path, clock: ManualClock) -> None:
    local = LocalStore(str(tmp_path))
    store = RateLimited(
        local, DeleteLimiter(clock, DeleteRate(files_per_second=1000, batches_per_second=10))
    )
    for _ in range(11):
        store.delete(keys(10))
    assert clock.monotonic() == pytest.approx(1)
    for _ in range(10):
        store.delete(keys(500))
    assert clock.monotonic() == pytest.approx(1 + 0.1 + 9 * 0.5)


def test_a_pause_is_not_followed_by_a_burst(clock: ManualClock) -> None:
    bucket = TokenBucket(clock, 10)
    bucket.take(1)
    clock.sleep(60)
    turns = []
    for _ in range(5):
        bucket.take(1)
        turns.append(clock.monotonic())
    assert [late - early for early, late in pairwise(turns)] == pytest.approx([0.1] * 4)


def test_threads_share_one_limit(clock: ManualClock) -> None:
    bucket = TokenBucket(clock, 100)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bucket.take, [5] * 40))
    assert bucket._free_at >= 40 * 5 / 100


def test_a_call_takes_no_more_than_the_files_of_a_second(
    tmp_path: Path, clock: ManualClock
) -> None:
    local = LocalStore(str(tmp_path))
    rates = (0.5, 30.9, 5000, None)
    stores = [
        RateLimited(local, DeleteLimiter(clock, DeleteRate(files_per_second=rate)))
        for rate in rates
    ]
    assert [store.capabilities.delete_batch for store in stores] == [1, 30, 1000, 1000]


def test_other_calls_are_not_held(tmp_path: Path, clock: ManualClock) -> None:
    store = RateLimited(
        LocalStore(str(tmp_path)),
        DeleteLimiter(clock, DeleteRate(files_per_second=1, batches_per_second=1)),
    )
    for number in range(10):
        store.write(f"k{number}", b"")
        store.read(f"k{number}")
    assert (store.list("").entries.num_rows, clock.monotonic()) == (10, 0)


def test_moves_are_held_like_deletes(tmp_path: Path, clock: ManualClock) -> None:
    store = RateLimited(
        LocalStore(str(tmp_path)), DeleteLimiter(clock, DeleteRate(files_per_second=2))
    )
    for number in range(5):
        store.write(f"k{number}", b"")
        store.move(f"k{number}", f"moved/k{number}")
    assert clock.monotonic() == pytest.approx(2)


@pytest.mark.parametrize("rate", [0, -1])
def test_a_limit_must_let_something_through(clock: ManualClock, rate: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        TokenBucket(clock, rate)


def test_a_limited_store_can_be_pickled(tmp_path: Path, clock: ManualClock) -> None:
    store = RateLimited(
        LocalStore(str(tmp_path)), DeleteLimiter(clock, DeleteRate(files_per_second=5))
    )
    other = pickle.loads(pickle.dumps(store))
    assert other.delete(["k"])[0].outcome is Outcome.ABSENT
