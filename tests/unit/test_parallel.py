from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lakesweep.parallel import map_ordered


def test_results_come_in_the_order_of_the_items() -> None:
    gates = [threading.Event() for _ in range(3)]

    def work(number: int) -> int:
        if number < 2:
            gates[number + 1].wait(10)
        gates[number].set()
        return number

    assert list(map_ordered(work, range(3), workers=3)) == [0, 1, 2]


@pytest.mark.parametrize(("items", "workers"), [([1], 4), ([], 4), ([1, 2, 3], 1)])
def test_what_cannot_go_on_side_by_side_is_done_at_once(items: list[int], workers: int) -> None:
    threads = map_ordered(lambda _: threading.current_thread(), items, workers=workers)
    assert list(threads) == [threading.current_thread()] * len(items)


def test_items_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            taken.append(number)
            yield number

    results = map_ordered(lambda number: number, items(), workers=4)
    next(results)
    assert len(taken) <= 8
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 8


def test_heavy_items_are_not_taken_up_together() -> None:
    under_way: list[int] = []

    def work(weight: int) -> int:
        under_way.append(weight)
        return weight

    results = map_ordered(work, [6, 3, 9, 20, 1], workers=4, weigh=lambda w: w, most=10)
    assert next(results) == 6
    assert sum(under_way) <= 9
    assert list(results) == [3, 9, 20, 1]


def test_an_error_is_raised_in_its_turn() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise ValueError(number)
        return number

    results = map_ordered(work, range(100), workers=4)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(results)
