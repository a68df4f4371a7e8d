""""""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import (
    DeniedError,
    ExistsError,
    LakesweepError,
    MissingError,
    NoServerError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.contract import pages_of
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import Outcome, expected_of
from lakesweep.storage.wrappers.faults import (
    Effect,
    Faulty,
    InterceptedCall,
    Recording,
    StorageFault,
    fail,
    lose,
    refuse,
)
from lakesweep.storage.wrappers.retry import AdaptiveConcurrency, Retrying, RetryPolicy
from tests.by_copy import ByCopy
from tests.dict_store import DictStore

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = RetryPolicy(attempts=4, total_seconds=100, first_pause_seconds=1, longest_pause_seconds=8)


class Rig:
    """A store that fails as planned, with retries in front and a record of what reached it."""

    def __init__(self, folder: Path, *plan: StorageFault, policy: RetryPolicy = POLICY) -> None:
        self.local = LocalStore(str(folder))
        self.clock = ManualClock(START)
        self.seen = Recording(Faulty(self.local, plan))
        self.store = Retrying(self.seen, self.clock, Random(1), policy)

    def calls(self) -> list[str]:
        return [call.method for call in self.seen.calls]


def fault(effect: Effect, *methods: str, times: int | None = 1) -> StorageFault:
    return StorageFault(effect, frozenset(methods), times=times)


@pytest.mark.parametrize("error", [ThrottledError, UnavailableError])
def test_every_call_is_repeated_after_a_passing_error(
    tmp_path: Path, error: type[LakesweepError]
) -> None:
    methods = ("list", "head", "read", "read_range", "write", "write_new", "copy", "move", "delete")
    rig = Rig(tmp_path, *(fault(fail(error), method, times=2) for method in methods))
    rig.store.write("a", b"data")
    rig.store.write_new("b", b"data")
    rig.store.copy("a", "d")
    rig.store.move("d", "c")
    assert rig.store.read("a") == b"data"
    assert rig.store.read_range("a", 1, 2) == b"at"
    assert rig.store.head("a").size_bytes == 4
    assert rig.store.list("").entries.num_rows == 3
    assert [d.outcome for d in rig.store.delete(["a", "b", "c"])] == [Outcome.DELETED] * 3
    assert {method: rig.calls().count(method) for method in methods} == dict.fromkeys(methods, 3)


@pytest.mark.parametrize("error", [DeniedError, MissingError])
def test_nothing_else_is_repeated(tmp_path: Path, error: type[LakesweepError]) -> None:
    rig = Rig(tmp_path, fault(fail(error), times=None))
    for call in (rig.store.read, rig.store.head, rig.store.list):
        with pytest.raises(error):
            call("key")
    assert rig.calls() == ["read", "head", "list"]
    assert rig.clock.monotonic() == 0


def test_the_attempts_are_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(fail(UnavailableError), times=None))
    with pytest.raises(UnavailableError):
        rig.store.read("key")
    assert rig.calls() == ["read"] * 4


def test_the_whole_time_is_bounded(tmp_path: Path) -> None:
    policy = RetryPolicy(attempts=1000, total_seconds=60, first_pause_seconds=1)
    rig = Rig(tmp_path, fault(fail(UnavailableError), times=None), policy=policy)
    with pytest.raises(UnavailableError):
        rig.store.read("key")
    assert 30 < rig.clock.monotonic() <= 60


def test_pauses_grow_with_full_jitter(tmp_path: Path) -> None:
    pauses = []
    for seed in range(50):
        rig = Rig(tmp_path, fault(fail(UnavailableError), times=3))
        rig.store = Retrying(rig.seen, rig.clock, Random(seed), POLICY)
        rig.local.write("key", b"")
        rig.store.read("key")
        pauses.append(rig.clock.monotonic())
    assert 0 < min(pauses) < 2
    assert 5 < max(pauses) < 1 + 2 + 4


def test_a_pause_that_the_store_asks_for_is_kept(tmp_path: Path) -> None:
    def throttle(call: InterceptedCall) -> None:
        raise ThrottledError(call.path, "SlowDown", retry_after=30)

    rig = Rig(tmp_path, fault(throttle))
    rig.local.write("key", b"")
    rig.store.read("key")
    assert 30 <= rig.clock.monotonic() <= 31


def test_a_lost_page_does_not_shorten_a_listing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(lose, "list", times=3))
    keys = [f"{number:05}" for number in range(20)]
    for key in keys:
        (tmp_path / key).touch()
    pages = pages_of(rig.store, "")
    assert sorted(k for page in pages for k in page.entries.column("key").to_pylist()) == keys


def test_only_keys_whose_outcome_may_change_are_deleted_again(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        fault(refuse(Outcome.THROTTLED, lambda key: key in "bd"), "delete"),
        fault(refuse(Outcome.FAILED, lambda key: key == "d", may_retry=True), "delete", times=2),
    )
    for key in "abcd":
        rig.local.write(key, b"")
    outcomes = rig.store.delete(["a", "b", "c", "d"])
    assert [(d.key, d.outcome) for d in outcomes] == [(key, Outcome.DELETED) for key in "abcd"]
    assert [call.keys for call in rig.seen.calls] == [("a", "b", "c", "d"), ("b", "d"), ("d",)]


@pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.LOCKED, Outcome.FAILED])
def test_a_final_outcome_is_not_asked_for_again(tmp_path: Path, outcome: Outcome) -> None:
    rig = Rig(tmp_path, fault(refuse(outcome, lambda _: True), "delete", times=None))
    assert rig.store.delete(["a"])[0].outcome is outcome
    assert rig.calls() == ["delete"]


def test_throttling_that_does_not_end_is_the_outcome(tmp_path: Path) -> None:
    throttled = refuse(Outcome.THROTTLED, lambda key: key == "b", may_retry=True)
    rig = Rig(tmp_path, fault(throttled, times=None))
    for key in "ab":
        rig.local.write(key, b"")
    assert [d.outcome for d in rig.store.delete(["a", "b"])] == [Outcome.DELETED, Outcome.THROTTLED]
    assert rig.calls() == ["delete"] * 4


def test_outcomes_that_are_known_survive_a_later_failure(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        fault(refuse(Outcome.THROTTLED, lambda key: key == "b"), "delete"),
        fault(fail(UnavailableError), "delete", times=None),
    )
    for key in "ab":
        rig.local.write(key, b"")
    assert [d.outcome for d in rig.store.delete(["a", "b"])] == [Outcome.DELETED, Outcome.THROTTLED]


def test_an_unanswered_delete_is_never_called_deleted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(lose, "delete"))
    rig.local.write("a", b"")
    assert [d.outcome for d in rig.store.delete(["a"])] == [Outcome.ABSENT]
    rig = Rig(tmp_path, fault(lose, "delete", times=None))
    with pytest.raises(UnavailableError):
        rig.store.delete(["a"])


def test_our_own_unanswered_creation_is_recognised(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(lose, "write_new"))
    rig.store.write_new("key", b"ours")
    assert rig.local.read("key") == b"ours"
    assert rig.calls() == ["write_new", "write_new", "read"]


def test_an_object_of_another_writer_is_not_taken_for_ours(tmp_path: Path) -> None:
    def overtaken(call: InterceptedCall) -> None:
        call.store.write_new("key", b"theirs")
        raise UnavailableError(call.path, "no answer")

    rig = Rig(tmp_path, fault(overtaken, "write_new"))
    with pytest.raises(ExistsError):
        rig.store.write_new("key", b"ours")
    assert rig.local.read("key") == b"theirs"


def test_an_object_that_was_there_before_is_not_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(fail(ThrottledError), "write_new"))
    rig.local.write("key", b"ours")
    with pytest.raises(ExistsError):
        rig.store.write_new("key", b"ours")
    assert rig.calls() == ["write_new", "write_new"]


def test_all_calls_slow_down_after_a_throttle_and_recover(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(fail(ThrottledError), "read"))
    rig.local.write("key", b"")
    assert rig.store.concurrency.limit is None
    limits: Sequence[float | None] = []
    for _ in range(3):
        rig.store.read("key")
        limits = [*limits, rig.store.concurrency.limit]
    assert limits == [2.0, None, None]


def test_a_retrying_store_can_be_pickled(tmp_path: Path) -> None:
    store = Retrying(LocalStore(str(tmp_path)), ManualClock(START), Random(1))
    store.write("key", b"data")
    assert pickle.loads(pickle.dumps(store)).read("key") == b"data"


def test_a_move_whose_answer_was_lost_is_done(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(lose, "move"))
    rig.local.write("a", b"data")
    rig.store.move("a", "b")
    assert (rig.local.read("b"), rig.local.list("").entries.num_rows) == (b"data", 1)


def test_a_move_never_takes_another_object_for_its_own(tmp_path: Path) -> None:
    rig = Rig(tmp_path, fault(fail(UnavailableError), "move"))
    rig.local.write("a", b"data")
    rig.local.write("b", b"else")
    with pytest.raises(ExistsError):
        rig.store.move("a", "b")
    assert [rig.local.read(key) for key in ("a", "b")] == [b"data", b"else"]


def test_a_move_that_was_never_in_doubt_is_not_looked_at(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.local.write("a", b"data")
    rig.local.write("b", b"data")
    with pytest.raises(ExistsError):
        rig.store.move("a", "b")
    assert rig.calls() == ["move"]


@pytest.mark.parametrize("step", ["head", "copy", "delete"])
@pytest.mark.parametrize("effect", [lose, fail(UnavailableError), fail(ThrottledError)])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_move_in_steps_goes_on_after_a_fault_of_any(step: str, effect: Effect, skip: int) -> None:
    store = DictStore()
    store.write("a", b"data")
    faulty = Faulty(store, [StorageFault(effect, frozenset({step}), skip=skip, times=1)])
    retrying = Retrying(ByCopy(faulty), ManualClock(START), Random(1), POLICY)
    retrying.move("a", "b", expected_of(store.head("a")))
    assert store.current() == {"b": b"data"}


def test_a_deleted_object_comes_back_once(tmp_path: Path) -> None:
    store = DictStore(versioned=True)
    store.write("a", b"data")
    store.delete(["a"])
    faulty = Faulty(
        store, [fault(lose, "undelete"), fault(fail(UnavailableError), "keeps_versions")]
    )
    retrying = Retrying(faulty, ManualClock(START), Random(1), POLICY)
    assert retrying.keeps_versions()
    retrying.undelete("a")
    assert store.current() == {"a": b"data"}
    with pytest.raises(MissingError):
        retrying.undelete("a")


def test_a_repeated_delete_expects_the_same(tmp_path: Path) -> None:
    store = DictStore()
    store.write("a", b"1")
    store.write("b", b"2")
    listed = [expected_of(store.head(key)) for key in ("a", "b")]
    slow = StorageFault(refuse(Outcome.THROTTLED, lambda key: key == "b"), times=1)
    store.write("b", b"changed")
    retrying = Retrying(Faulty(store, [slow]), ManualClock(START), Random(1), POLICY)
    outcomes = [deletion.outcome for deletion in retrying.delete(["a", "b"], listed)]
    assert outcomes == [Outcome.DELETED, Outcome.CHANGED]


def test_a_server_that_never_answered_is_given_up_within_seconds(tmp_path: Path) -> None:
    clock = ManualClock(START)
    nowhere = Faulty(LocalStore(str(tmp_path)), [StorageFault(fail(NoServerError))])
    with pytest.raises(NoServerError):
        Retrying(nowhere, clock, Random(1)).read("a")
    assert (clock.now() - START).total_seconds() < 5


def test_a_server_that_answered_before_may_restart(tmp_path: Path) -> None:
    clock = ManualClock(START)
    local = LocalStore(str(tmp_path))
    local.write("a", b"data")
    gone = StorageFault(fail(NoServerError), frozenset({"read"}), skip=1, times=7)
    store = Retrying(Faulty(local, [gone]), clock, Random(1))
    assert [store.read("a"), store.read("a")] == [b"data"] * 2
    assert (clock.now() - START).total_seconds() > 5


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def begin(pace: AdaptiveConcurrency, requests: int) -> list[int]:
    return [pace.begin() for _ in range(requests)]


def test_there_is_no_limit_before_the_first_throttle(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    begin(pace, 100)
    assert pace.limit is None


def test_a_throttle_halves_what_is_in_flight(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    numbers = begin(pace, 16)
    pace.slow_down(numbers[3])
    assert pace.limit == 8


def test_one_burst_cuts_once(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    for number in begin(pace, 16):
        pace.slow_down(number)
    assert pace.limit == 8


def test_requests_begun_after_a_cut_cut_again_but_never_to_nothing(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    begin(pace, 15)
    for limit in (8.0, 4.0, 2.0, 1.0, 1.0):
        while pace.limit is not None and pace._in_flight >= max(1, int(pace.limit)):
            pace.end()
        pace.slow_down(pace.begin())
        assert pace.limit is not None
        assert pace.limit <= limit
    assert pace.limit == 1.0


def test_a_round_of_good_answers_raises_the_limit_by_about_one(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 16)[-1])
    for _ in range(8):
        pace.speed_up()
    assert pace.limit == pytest.approx(9, abs=0.1)


def test_the_limit_goes_when_nobody_needs_it(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 2)[-1])
    for _ in range(20):
        pace.speed_up()
    assert pace.limit is None


def test_everybody_waits_for_the_pause_that_was_asked_for(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 4)[0], pause=5)
    for _ in range(4):
        pace.end()
    pace.begin()
    assert clock.monotonic() == 5


def test_no_more_requests_than_the_limit_are_in_flight(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 8)[-1])
    for _ in range(8):
        pace.end()
    counting, under_way, most = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal under_way, most
        pace.begin()
        with counting:
            under_way += 1
            most = max(most, under_way)
        with counting:
            under_way -= 1
        pace.end()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(500)))
    assert most <= 4
