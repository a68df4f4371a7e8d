"""How even splits are, and what finding them costs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable

import pytest

from lakesweep.errors import MissingError
from lakesweep.storage.listing.key_splits import Split, divide, local_store_of, split
from lakesweep.storage.stores import Stores
from tests.paged_store import ListCall, PagedStore


def sizes(keys: Iterable[str], splits: Iterable[Split]) -> list[int]:
    return [sum(part.holds(key) for key in keys) for part in splits]


def hashed(count: int, prefix: str = "") -> set[str]:
    random_ = random.Random(7)
    return {f"{prefix}{random_.getrandbits(64):016x}.parquet" for _ in range(count)}


def test_a_folder_of_one_page_stays_whole_after_one_request() -> None:
    store = PagedStore({"a/1", "a/2", "b/1"}, page_rows=3)
    assert split(store, "a/", 8) == [Split("a/")]
    assert len(store.list_calls) == 1


def test_an_empty_folder_is_one_split() -> None:
    assert split(PagedStore(set()), "a/", 8) == [Split("a/")]


def test_folders_are_cut_in_front_of_their_names() -> None:
    keys = {f"t/{day}/{number}" for day in "abc" for number in range(30)}
    store = PagedStore(keys, page_rows=10)
    assert split(store, "t/", 3) == [
        Split("t/", "", "t/b"),
        Split("t/", "t/b", "t/c"),
        Split("t/", "t/c", ""),
    ]
    assert len(store.list_calls) == 1


def test_a_chain_of_single_folders_is_followed_down() -> None:
    keys = {f"warehouse/db/t/data/{day}/x{number}" for day in "abcd" for number in range(30)}
    splits = split(PagedStore(keys, page_rows=10), "warehouse/", 4)
    assert sizes(keys, splits) == [30, 30, 30, 30]


def test_a_flat_folder_of_hashed_names_is_cut_evenly() -> None:
    keys = hashed(4_000, "data/")
    splits = split(PagedStore(keys, page_rows=50), "data/", 8)
    assert len(splits) == 8
    assert max(sizes(keys, splits)) < 2 * 4_000 / 8


def test_numbers_behind_a_long_common_beginning_are_cut_evenly() -> None:
    keys = {f"data/part-{number:07d}-of-the-same-job.parquet" for number in range(4_000)}
    splits = split(PagedStore(keys, page_rows=50), "data/", 8)
    assert max(sizes(keys, splits)) <= 2 * 4_000 / 8


def test_a_level_of_very_many_folders_is_neither_enumerated_nor_one_split_each() -> None:
    keys = {f"t/k={number:06d}/x" for number in range(30_000)}
    store = PagedStore(keys, page_rows=1_000)
    splits = split(store, "t/", 10)
    assert len(splits) == 10
    assert max(sizes(keys, splits)) <= 2 * 30_000 / 10
    assert sum(call.one_level for call in store.list_calls) == 1
    assert len(store.list_calls) < 60


def test_one_heavy_folder_among_small_ones_is_cut_further() -> None:
    keys = {f"t/{name}/x" for name in "abc"} | hashed(2_000, "t/heavy/")
    splits = split(PagedStore(keys, page_rows=50), "t/", 8)
    assert max(sizes(keys, splits)) < 2 * 2_000 / 8


def test_planning_never_makes_more_requests_than_allowed() -> None:
    store = PagedStore(hashed(2_000), page_rows=5)
    split(store, "", 64, max_requests=20)
    assert len(store.list_calls) <= 20


def test_planning_stops_when_told() -> None:
    store = PagedStore(hashed(2_000), page_rows=5)
    stopped = divide(store, Split(""), 64, max_parts=64, max_requests=99, is_stopped=lambda: True)
    assert (stopped, store.list_calls) == ([Split("")], [])


def test_a_store_without_order_is_asked_for_levels_only() -> None:
    keys = {f"t/{day:03d}/{number}" for day in range(40) for number in range(10)}
    store = PagedStore(keys, page_rows=100, ordered=False)
    splits = split(store, "t/", 4)
    assert sizes(keys, splits) == [100, 100, 100, 100]
    assert {(call.one_level, call.after) for call in store.list_calls} == {(True, "")}


def test_a_level_with_very_many_files_stays_whole_on_a_store_without_order() -> None:
    keys = {f"t/{number}" for number in range(2_000)} | {"t/a/1", "t/b/1"}
    store = PagedStore(keys, page_rows=5_000, ordered=False)
    assert split(store, "t/", 4) == [Split("t/")]


def test_only_the_named_folder_itself_must_exist() -> None:
    store = PagedStore({"t/a/1", "t/b/1"}, ordered=False)

    def vanish(call: ListCall) -> None:
        if call.prefix != "t/":
            raise MissingError(store.base + call.prefix)

    store.before_list = vanish
    assert split(store, "t/", 4) == [Split("t/")]
    with pytest.raises(MissingError):
        split(store, "u/", 4)


def test_a_split_can_be_sent_to_an_executor() -> None:
    part = Split("t/", "t/a", "t/b\U0010ffff")
    assert pickle.loads(pickle.dumps(part)) == part


def test_the_local_store_is_found_behind_the_wrappers_of_an_opened_one() -> None:
    """Without it, large local folders are read by one thread, and a stat for each file is paid."""
    assert local_store_of(Stores().open("/")) is not None
