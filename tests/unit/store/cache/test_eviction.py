from __future__ import annotations

import gc
import tracemalloc
from collections import OrderedDict
from random import Random

import pytest

from lakesweep.store.backends.rows import ObjectRow
from lakesweep.store.cache.cache import size_of
from lakesweep.store.cache.eviction import ENTRY_BYTES, EvictingMap

_ROOM = 100 * (ENTRY_BYTES + 100)


def _filled(keys: range) -> EvictingMap[int, str]:
    kept: EvictingMap[int, str] = EvictingMap(_ROOM)
    for key in keys:
        kept.put(key, str(key), 100)
    return kept


def test_what_is_put_can_be_got() -> None:
    kept = _filled(range(10))
    assert [kept.get(key) for key in range(11)] == [*map(str, range(10)), None]
    assert sorted(kept) == list(range(10))


def test_a_value_takes_the_place_of_the_one_before() -> None:
    kept = _filled(range(1))
    before = kept.bytes
    kept.put(0, "other", 200)
    assert kept.get(0) == "other"
    assert (len(kept), kept.bytes) == (1, before + 100)


def test_what_is_dropped_gives_its_bytes_back() -> None:
    kept = _filled(range(10))
    for key in range(10):
        assert kept.get(key)
    empty = EvictingMap[int, str](_ROOM).bytes
    assert [kept.drop(key) for key in (*range(10), 3)] == [True] * 10 + [False]
    assert (len(kept), kept.bytes) == (0, empty)


@pytest.mark.parametrize("max_bytes", [0, 1, 500, 1_000, 10_000, 100_000])
def test_it_never_has_more_bytes_than_it_may(max_bytes: int) -> None:
    random, kept = Random(5), EvictingMap[int, int](max_bytes)
    for _ in range(5_000):
        key = random.randrange(200)
        match random.randrange(4):
            case 0:
                kept.drop(key)
            case 1:
                kept.get(key)
            case _:
                kept.put(key, key, random.choice([0, 10, 1_000, 30_000]))
        assert kept.bytes <= max(max_bytes, 8)


def test_what_is_too_large_is_not_kept_and_pushes_nothing_out() -> None:
    kept = _filled(range(10))
    kept.put(99, "large", _ROOM)
    assert kept.peek(99) is None
    assert len(kept) == 10


def test_what_is_in_use_outlives_any_number_of_keys_that_come_once() -> None:
    kept = _filled(range(20))
    for stranger in range(1_000, 11_000):
        kept.put(stranger, "", 100)
        assert kept.get(stranger % 20) is not None


def test_a_key_that_comes_back_soon_is_not_the_next_to_go() -> None:
    kept = _filled(range(200))
    gone = [key for key in range(200) if kept.peek(key) is None]
    back = gone[-1]
    kept.put(back, "back", 100)
    for stranger in range(1_000, 1_050):
        kept.put(stranger, "", 100)
    assert kept.peek(back) == "back"


def test_it_does_better_than_forgetting_what_was_not_used_for_longest() -> None:
    random = Random(3)
    keys = [int(random.paretovariate(0.2)) for _ in range(30_000)]
    kept, recent = EvictingMap[int, int](_ROOM), OrderedDict[int, int]()
    hits = by_age = 0
    for key in keys:
        if kept.get(key) is None:
            kept.put(key, key, 100)
        else:
            hits += 1
        by_age += key in recent
        recent[key] = key
        recent.move_to_end(key)
        if len(recent) > 100:
            recent.popitem(last=False)
    assert hits > by_age * 1.1


@pytest.mark.parametrize("value_bytes", [1, 100, 300, 2_000, 20_000])
def test_the_bytes_are_those_that_python_takes(value_bytes: int) -> None:
    max_bytes = 2 * 2**20
    gc.collect()
    tracemalloc.start()
    try:
        kept = EvictingMap[tuple[str, int, int], ObjectRow](max_bytes)
        for number in range(max_bytes // value_bytes if value_bytes > 300 else 7_000):
            id_, created_at = 10**17 + number, 10**15 + number
            type_ = str(b"a type", "ascii")
            row = ObjectRow(id_, 0, type_, created_at, None, bytes(value_bytes) + b"1")
            kept.put(("acme", id_, 0), row, size_of(row))
            kept.get(("acme", id_ - number // 2, 0))
        # Rows are read before they are kept, so one may be there besides.
        assert tracemalloc.get_traced_memory()[1] <= max_bytes + 2 * value_bytes + 10_000
        assert kept.bytes > 0.95 * max_bytes
    finally:
        tracemalloc.stop()
