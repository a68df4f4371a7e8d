from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from lakesweep.errors import FormatError
from lakesweep.store.index import BYTES, LIMITS, LINKS, Index, IndexLimits, IndexUpdate, NodeCache
from lakesweep.store.index.keys import encode
from lakesweep.store.objects.links import Link

SMALL = IndexLimits(
    embedded=2_000, buffer=500, pending=4_000, stripe=4_000, page=2_000, root=500, block=300
)


class Shelf:
    """Nodes in memory, and a record of what was loaded and written."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}
        self.trips: list[list[int]] = []

    def load(self, ids: Sequence[int]) -> list[bytes]:
        self.trips.append(list(ids))
        return [self.rows[id_] for id_ in ids]

    def write(self, data: bytes) -> int:
        id_ = len(self.rows) + 1
        self.rows[id_] = data
        return id_

    def empty(self) -> Index[bytes]:
        return Index.empty(BYTES, NodeCache(self.load))

    def cold(self, index: Index[bytes]) -> Index[bytes]:
        """The same index with nothing loaded."""
        self.trips.clear()
        return Index.parse(index.to_bytes(), BYTES, NodeCache(self.load))

    def put(
        self, index: Index[bytes], keys: Iterable[bytes], limits: IndexLimits = SMALL
    ) -> Index[bytes]:
        update = IndexUpdate(index, self.write, limits)
        for key in keys:
            update.put(key, b"value of " + key)
        return update.finish()

    def remove(
        self, index: Index[bytes], keys: Iterable[bytes], limits: IndexLimits = SMALL
    ) -> Index[bytes]:
        update = IndexUpdate(index, self.write, limits)
        for key in keys:
            update.remove(key)
        return update.finish()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def numbered(*numbers: int) -> list[bytes]:
    return [encode(("table", i)) for i in range(*numbers)]


def shuffled(keys: list[bytes]) -> list[bytes]:
    return random.Random(3).sample(keys, len(keys))


class TestEmbedding:
    def test_a_small_index_needs_no_node(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(300), LIMITS)
        assert not shelf.rows
        assert len(list(shelf.cold(index).items())) == 300

    def test_beyond_32_kb_it_spills_into_stripes(self, shelf: Shelf) -> None:
        index = shelf.empty()
        while not shelf.rows:
            assert len(index.to_bytes()) < 33_000
            start = sum(1 for _ in index.items())
            index = shelf.put(index, numbered(start, start + 50), LIMITS)
        assert index.stats().stripes == 1
        assert len(index.to_bytes()) < 300

    def test_a_commit_object_stays_small_however_many_entries_there_are(self, shelf: Shelf) -> None:
        index = shelf.empty()
        keys = shuffled(numbered(10_000))
        for i in range(0, len(keys), 50):
            index = shelf.put(index, keys[i : i + 50], replace(SMALL, page=300, root=80))
            assert len(index.to_bytes()) < SMALL.embedded + SMALL.root
        assert index.stats().levels > 2
        assert [key for key, _ in shelf.cold(index).items()] == sorted(keys)

    def test_removals_leave_no_mark_where_nothing_lies_below(self, shelf: Shelf) -> None:
        index = shelf.remove(shelf.put(shelf.empty(), numbered(5)), numbered(9))
        assert index.to_bytes() == shelf.empty().to_bytes()

    def test_changes_that_change_nothing_give_the_index_itself(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(5))
        assert shelf.put(index, numbered(3)) is index
        assert IndexUpdate(index, shelf.write).finish() is index


class TestWriting:
    def test_puts_and_removes_load_nothing_before_the_index_spills(self, shelf: Shelf) -> None:
        index = shelf.cold(shelf.put(shelf.empty(), numbered(2000)))
        index = shelf.remove(shelf.put(index, numbered(2000, 2003)), numbered(3))
        assert not shelf.trips
        found = [key for key, _ in index.items()]
        assert found == numbered(3, 2003)

    def test_a_spill_loads_and_writes_only_what_it_touches(self, shelf: Shelf) -> None:
        index = shelf.cold(shelf.put(shelf.empty(), numbered(0, 40_000, 10)))
        before = len(shelf.rows)
        stripes = index.stats().stripes
        shelf.trips.clear()
        index = shelf.put(index, numbered(20_000, 20_200))
        touched = {id_ for trip in shelf.trips for id_ in trip}
        assert stripes > 25
        assert len(touched) <= 3
        assert len(shelf.rows) - before <= 8
        assert len(list(index.items())) == 4000 + 180

    def test_appending_fills_stripes_up(self, shelf: Shelf) -> None:
        index = shelf.empty()
        for i in range(0, 10_000, 20):
            index = shelf.put(index, numbered(i, i + 20))
        stats = index.stats()
        assert stats.stripe_bytes / stats.stripes > 0.85 * SMALL.stripe

    def test_random_keys_leave_few_stripes(self, shelf: Shelf) -> None:
        index = shelf.empty()
        keys = shuffled(numbered(10_000))
        for i in range(0, len(keys), 20):
            index = shelf.put(index, keys[i : i + 20])
        stats = index.stats()
        assert stats.stripe_bytes / stats.stripes > 0.6 * SMALL.stripe

    def test_stripes_that_shrink_are_joined_with_their_neighbours(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(10_000))
        many = index.stats().stripes
        for i in range(0, 10_000, 100):
            index = shelf.remove(index, set(numbered(i, i + 100)) - set(numbered(i, i + 3)))
        # The last removals still wait; these send them to the stripes.
        index = shelf.put(index, numbered(20_000, 20_200))
        stats = index.stats()
        assert stats.entries == 500
        assert many > 50
        assert stats.stripes <= 10

    def test_a_neighbour_between_two_shrunk_stripes_is_joined_with_one_of_them(
        self, shelf: Shelf
    ) -> None:
        limits = replace(SMALL, pending=0)
        index = shelf.put(shelf.empty(), numbered(300), limits)
        *_, (first, middle, last) = index.tree.levels()
        outer = [key for key in numbered(300) if not middle.spans(key)]
        kept = {first.first, first.last, last.first, last.last}
        index = shelf.remove(index, set(outer) - kept, limits)
        assert [key for key, _ in index.items()] == sorted({*numbered(300)} - {*outer} | kept)
        assert index.stats().stripes == 2

    def test_an_index_that_is_emptied_has_neither_stripes_nor_levels(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(10_000))
        assert index.stats().levels > 1
        index = shelf.remove(index, numbered(10_000))
        assert index.to_bytes() == shelf.empty().to_bytes()

    def test_few_entries_that_are_left_need_one_level(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(10_000))
        index = shelf.remove(index, numbered(5, 10_000))
        assert (index.stats().stripes, index.stats().levels) == (1, 1)
        assert len(list(shelf.cold(index).items())) == 5

    def test_a_value_larger_than_a_stripe_has_one_of_its_own(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(200))
        update = IndexUpdate(index, shelf.write, SMALL)
        update.put(encode(("table", 100, "large")), bytes(50_000))
        index = shelf.cold(update.finish())
        assert len(list(index.items())) == 201
        assert sum(len(row) > 50_000 for row in shelf.rows.values()) == 1

    def test_nodes_are_written_before_those_that_name_them(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(10_000))
        *pages, _ = index.tree.levels()
        for page in (page for level in pages for page in level):
            below = shelf.empty().tree.nodes.fetch([page.id])[0]
            assert all(
                int.from_bytes(stored[:8], "little") < page.id
                for _, stored in below.entries()
                if isinstance(stored, bytes)
            )

    def test_keys_of_2_kb_work_and_longer_ones_are_refused(self, shelf: Shelf) -> None:
        keys = [encode(("x" * 2000, i)) for i in range(100)]
        index = shelf.put(shelf.empty(), keys, LIMITS)
        assert [key for key, _ in shelf.cold(index).items()] == keys
        with pytest.raises(ValueError, match="2048"):
            IndexUpdate(index, shelf.write).put(bytes(2049), b"")

    def test_an_older_index_stays_as_it_was(self, shelf: Shelf) -> None:
        old = shelf.put(shelf.empty(), numbered(1000))
        shelf.remove(shelf.put(old, numbered(1000, 3000)), numbered(1000))
        assert [key for key, _ in shelf.cold(old).items()] == numbered(1000)


class TestReading:
    @pytest.fixture
    def index(self, shelf: Shelf) -> Index[bytes]:
        """Stripes, a pending run over them and embedded entries over both."""
        index = shelf.put(shelf.empty(), numbered(0, 8000, 2))
        index = shelf.put(index, numbered(1, 80, 2))
        assert index.pending
        index = shelf.remove(index, numbered(0, 6, 2))
        assert index.embedded.count
        return shelf.cold(index)

    def test_one_key_loads_one_path(self, shelf: Shelf, index: Index[bytes]) -> None:
        assert index.get(encode(("table", 6000)))
        assert sum(map(len, shelf.trips)) == index.tree.level

    def test_a_key_between_stripes_is_absent_without_loading_one(
        self, shelf: Shelf, index: Index[bytes]
    ) -> None:
        assert encode(("zebra",)) not in index
        assert encode(("aardvark",)) not in index
        assert not shelf.trips

    def test_prefetch_takes_one_round_trip_a_level(self, shelf: Shelf, index: Index[bytes]) -> None:
        wanted = [*numbered(0, 8000, 500), encode(("absent",))]
        index.prefetch(wanted)
        assert len(shelf.trips) == index.tree.level
        assert sum(key in index for key in wanted) == 15
        assert len(shelf.trips) == index.tree.level

    def test_a_full_scan_takes_few_round_trips(self, shelf: Shelf, index: Index[bytes]) -> None:
        assert len(list(index.items())) == 4000 - 3 + 40
        assert len(shelf.trips) < sum(map(len, shelf.trips)) / 2

    def test_the_top_level_of_a_tree_loads_only_what_it_needs(self, shelf: Shelf) -> None:
        names = [(f"ns{i % 5}", f"folder{i % 50}", f"table{i}") for i in range(5000)]
        index = shelf.cold(shelf.put(shelf.empty(), map(encode, names)))
        assert list(index.heads()) == [encode((f"ns{i}",)) for i in range(5)]
        assert len({id_ for trip in shelf.trips for id_ in trip}) <= 5 * index.tree.level
        folders = [encode(("ns1", f"folder{i}")) for i in range(1, 50, 5)]
        assert list(index.heads(encode(("ns1",)))) == sorted(folders)

    def test_heads_pass_over_what_was_removed(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), [encode((i // 100, i)) for i in range(1000)])
        index = shelf.remove(index, [encode((3, i)) for i in range(300, 400)])
        assert list(index.heads()) == [encode((i,)) for i in range(10) if i != 3]

    def test_threads_may_share_an_index(self, index: Index[bytes]) -> None:
        expected = sorted({*numbered(0, 8000, 2), *numbered(1, 80, 2)} - {*numbered(0, 6, 2)})
        answers: list[list[bytes]] = []
        threads = [
            threading.Thread(target=lambda: answers.append([key for key, _ in index.items()]))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [expected] * 4

    def test_node_ids_are_all_that_reading_needs(self, shelf: Shelf, index: Index[bytes]) -> None:
        ids = set(index.node_ids())
        rows = {id_: shelf.rows[id_] for id_ in ids}
        alone = Index.parse(
            index.to_bytes(), BYTES, NodeCache(lambda ids: [rows[id_] for id_ in ids])
        )
        assert len(list(alone.items())) == 4000 - 3 + 40

    def test_values_go_through_the_codec(self, shelf: Shelf) -> None:
        update = IndexUpdate(Index.empty(LINKS, NodeCache(shelf.load)), shelf.write)
        update.put(b"a", Link(5))
        assert update.finish().get(b"a") == 5


class TestDamage:
    def test_of_any_byte_of_the_index_is_an_error(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.put(shelf.empty(), numbered(1000)), numbered(1000, 1003))
        data = index.to_bytes()
        for place in range(len(data)):
            damaged = bytearray(data)
            damaged[place] ^= 0x10
            with pytest.raises(FormatError):
                Index.parse(bytes(damaged), BYTES, NodeCache(shelf.load))
        for size in range(len(data)):
            with pytest.raises(FormatError):
                Index.parse(data[:size], BYTES, NodeCache(shelf.load))

    def test_of_a_node_names_the_node(self, shelf: Shelf) -> None:
        index = shelf.put(shelf.empty(), numbered(100), replace(SMALL, embedded=100))
        (id_,) = index.node_ids()
        shelf.rows[id_] = shelf.rows[id_][:-1] + b"?"
        with pytest.raises(FormatError, match=f"index node {id_}: a block does not match"):
            list(shelf.cold(index).items())
