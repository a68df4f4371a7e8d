"""Nothing is sent to a store once the fence says no, not even a retry."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import LeaseHeldError, UnavailableError
from lakesweep.storage.address import parse
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, Recording, StorageFault, fail
from lakesweep.storage.wrappers.fenced import MAX_KEYS, Fenced, FencedStores
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter, RateLimited
from lakesweep.storage.wrappers.retry import Retrying
from tests.moments import NOON

BUCKET = "memory://fenced/"


class Fence:
    """Lets a number of requests pass."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def __call__(self) -> None:
        if not self.left:
            raise LeaseHeldError("r1: r2 has taken over")
        self.left -= 1


def _open(store: ObjectStore, fence: Fence) -> ObjectStore:
    stores = Stores(replace={BUCKET: store})
    return FencedStores(stores, fence).open(parse(BUCKET))


@pytest.fixture
def bucket() -> Recording:
    found = Recording(Stores().open("memory://fenced-objects/"))
    for name in "abc":
        found.write(name, b"")
    found.calls.clear()
    return found


def test_what_the_fence_stops_is_not_sent(bucket: Recording) -> None:
    deletions = _open(bucket, Fence(0)).delete(["a", "b"])
    assert [each.outcome for each in deletions] == [Outcome.UNSENT] * 2
    assert not list(bucket.keys("delete"))


def test_requests_are_small(bucket: Recording) -> None:
    assert _open(bucket, Fence(0)).capabilities.delete_batch == MAX_KEYS


def test_the_fence_is_asked_again_before_a_retry_and_after_waiting(bucket: Recording) -> None:
    clock = ManualClock(NOON)
    lost = Faulty(bucket, [StorageFault(fail(UnavailableError), frozenset({"delete"}), times=1)])
    slow = RateLimited(lost, DeleteLimiter(clock, DeleteRate(files_per_second=1)))
    store = _open(Retrying(slow, clock, Random(0)), Fence(1))
    assert [each.outcome for each in store.delete(["a"])] == [Outcome.UNSENT]
    assert not list(bucket.keys("delete"))


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.write("a", b"x"),
        lambda store: store.write_new("d", b"x"),
        lambda store: store.copy("a", "d"),
        lambda store: store.move("a", "d"),
        lambda store: store.undelete("a"),
    ],
)
def test_nothing_else_is_changed_either(bucket: Recording, change: object) -> None:
    store = _open(bucket, Fence(0))
    with pytest.raises(LeaseHeldError):
        change(store)  # type: ignore[operator]
    assert bucket.calls == []


def test_what_was_deleted_before_an_error_is_known(tmp_path: Path) -> None:
    keys = [parse(f"{tmp_path}/{name}").key for name in "ab"]
    local = Stores().open(parse(f"{tmp_path}/a"))
    for key in keys:
        local.write(key, b"")
    lost = StorageFault(fail(UnavailableError), frozenset({"delete"}), skip=1)
    deletions = Fenced(Faulty(local, [lost]), Fence(9)).delete(keys)
    assert [each.outcome for each in deletions] == [Outcome.DELETED, Outcome.FAILED]
    assert deletions[1].may_retry


def test_a_file_system_checks_before_each_file(tmp_path: Path) -> None:
    stores = Stores()
    place = parse(f"{tmp_path}/a")
    local = stores.open(place)
    keys = [parse(f"{tmp_path}/{name}").key for name in "abc"]
    for key in keys:
        local.write(key, b"")
    deletions = FencedStores(stores, Fence(1)).open(place).delete(keys)
    assert [each.outcome for each in deletions] == [Outcome.DELETED, *[Outcome.UNSENT] * 2]
