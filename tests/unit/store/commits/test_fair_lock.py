from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakesweep.errors import ContendedError
from lakesweep.store.commits.fair_lock import FairLocks


def test_threads_come_in_the_order_in_which_they_asked() -> None:
    locks, order, threads = FairLocks(), list[int](), list[threading.Thread]()

    def work(number: int) -> None:
        with locks.take("a", 60):
            order.append(number)

    with locks.take("a", 60):
        for number in range(8):
            threads.append(threading.Thread(target=work, args=[number]))
            threads[-1].start()
            while len(locks._queues["a"]) < number + 1:
                pass
    for thread in threads:
        thread.join()
    assert order == list(range(8))
    assert locks._queues == {}


def test_other_things_do_not_wait() -> None:
    locks = FairLocks()
    with locks.take("a", 0), locks.take("b", 0):
        assert set(locks._queues) == {"a", "b"}


def test_who_waits_too_long_gives_up_and_is_in_nobodys_way() -> None:
    locks = FairLocks()

    def wait() -> None:
        with pytest.raises(ContendedError, match="still locked"), locks.take("a", 0.01):
            pass

    with locks.take("a", 0):
        with ThreadPoolExecutor(1) as other:
            other.submit(wait).result()
        assert len(locks._queues["a"]) == 0
    with locks.take("a", 0):
        pass
    assert locks._queues == {}


def test_who_holds_a_thing_is_told_at_once_that_it_cannot_take_it_again() -> None:
    locks = FairLocks()
    with locks.take("a", 0):
        with pytest.raises(RuntimeError, match="nested commit"), locks.take("a", 60):
            pass
        assert len(locks._queues["a"]) == 0
    assert (locks._queues, locks._holders) == ({}, {})


def test_who_let_go_of_a_thing_may_take_it_again_after_others() -> None:
    locks = FairLocks()

    def hold() -> None:
        with locks.take("a", 60):
            pass

    with ThreadPoolExecutor(1) as other:
        with locks.take("a", 0):
            waiting = other.submit(hold)
            while not locks._queues["a"]:
                pass
        waiting.result()
        hold()
    assert (locks._queues, locks._holders) == ({}, {})


class _TooSlowError(Exception):
    """What ends the wait of a thread from outside."""


@pytest.mark.parametrize("handed_over", [False, True])
def test_who_is_interrupted_while_waiting_is_in_nobodys_way(handed_over: bool) -> None:
    locks = FairLocks()
    locks.enter("a", 0)

    class Interrupted:
        """A ticket on which the wait is interrupted, before or after the turn has come."""

        def acquire(self, timeout: float) -> bool:
            assert timeout > 0
            if handed_over:
                locks.leave("a")
            raise _TooSlowError

        def release(self) -> None:
            """The turn has come."""

    ticket: Any = Interrupted()
    locks._queues["a"].append(ticket)
    with pytest.raises(_TooSlowError):
        locks._wait("a", ticket, 60)
    if not handed_over:
        locks.leave("a")
    assert locks._queues == {}
