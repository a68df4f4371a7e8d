from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakesweep.errors import ContendedError
from lakesweep.store.commits.fair_lock import FairLocks


def test_threads_come_in_the_order_in_which_they_asked() -> None:
    turns, order, threads = FairLocks(), list[int](), list[threading.Thread]()

    def work(number: int) -> None:
        with turns.take("a", 60):
            order.append(number)

    with turns.take("a", 60):
        for number in range(8):
            threads.append(threading.Thread(target=work, args=[number]))
            threads[-1].start()
            while len(turns._queues["a"]) < number + 1:
                pass
    for thread in threads:
        thread.join()
    assert order == list(range(8))
    assert turns._queues == {}


def test_other_things_do_not_wait() -> None:
    turns = FairLocks()
    with turns.take("a", 0), turns.take("b", 0):
        assert set(turns._queues) == {"a", "b"}


def test_who_waits_too_long_gives_up_and_is_in_nobodys_way() -> None:
    turns = FairLocks()

    def wait() -> None:
        with pytest.raises(ContendedError, match="busy"), turns.take("a", 0.01):
            pass

    with turns.take("a", 0):
        with ThreadPoolExecutor(1) as other:
            other.submit(wait).result()
        assert len(turns._queues["a"]) == 0
    with turns.take("a", 0):
        pass
    assert turns._queues == {}


def test_who_holds_a_thing_is_told_at_once_that_it_cannot_take_it_again() -> None:
    turns = FairLocks()
    with turns.take("a", 0):
        with pytest.raises(RuntimeError, match="began another one"), turns.take("a", 60):
            pass
        assert len(turns._queues["a"]) == 0
    assert (turns._queues, turns._holders) == ({}, {})


def test_who_let_go_of_a_thing_may_take_it_again_after_others() -> None:
    turns = FairLocks()

    def hold() -> None:
        with turns.take("a", 60):
            pass

    with ThreadPoolExecutor(1) as other:
        with turns.take("a", 0):
            waiting = other.submit(hold)
            while not turns._queues["a"]:
                pass
        waiting.result()
        hold()
    assert (turns._queues, turns._holders) == ({}, {})


class _TooSlowError(Exception):
    """What ends the wait of a thread from outside."""


@pytest.mark.parametrize("handed_over", [False, True])
def test_who_is_interrupted_while_waiting_is_in_nobodys_way(handed_over: bool) -> None:
    turns = FairLocks()
    turns.enter("a", 0)

    class Interrupted:
        """A ticket on which the wait is interrupted, before or after the turn has come."""

        def acquire(self, timeout: float) -> bool:
            assert timeout > 0
            if handed_over:
                turns.leave("a")
            raise _TooSlowError

        def release(self) -> None:
            """The turn has come."""

    ticket: Any = Interrupted()
    turns._queues["a"].append(ticket)
    with pytest.raises(_TooSlowError):
        turns._wait("a", ticket, 60)
    if not handed_over:
        turns.leave("a")
    assert turns._queues == {}
