"""Indexes against a dictionary, their keys against tuples."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from lakesweep.store.index import BYTES, Index, IndexLimits, IndexUpdate, NodeCache
from lakesweep.store.index.keys import Component, component_end, decode, encode, prefix_end
from lakesweep.store.index.tree import Child
from tests.random_tests import Machine, examples

# So little room that a handful of entries spills, splits, merges and grows further levels.
TINY = IndexLimits(embedded=90, buffer=60, pending=150, stripe=160, page=120, root=70, block=50)

components: st.SearchStrategy[Component] = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.binary(max_size=4)
    | st.integers(-(2**64) + 1, 2**64 - 1)
    | st.integers(-300, 300)
    | st.text("\x00\x01\x02ÿ", max_size=4)
)
tuples = st.lists(components, max_size=5).map(tuple)


def _order(components: tuple[Component, ...]) -> list[tuple[int, object]]:
    kinds = {bytes: 0, str: 1, int: 2}
    return [
        (kinds[type(each)], each.encode() if isinstance(each, str) else each) for each in components
    ]


@given(tuples)
def test_keys_give_their_tuples_back(components: tuple[Component, ...]) -> None:
    assert decode(encode(components)) == components


@given(tuples, tuples)
def test_keys_sort_as_their_tuples(
    one: tuple[Component, ...], other: tuple[Component, ...]
) -> None:
    assert (encode(one) < encode(other)) == (_order(one) < _order(other))


@given(tuples, tuples)
def test_a_key_begins_with_another_just_when_its_tuple_does(
    one: tuple[Component, ...], other: tuple[Component, ...]
) -> None:
    for whole in (one, other + one):
        begins = whole[: len(other)] == other
        same_kinds = list(map(type, whole[: len(other)])) == list(map(type, other))
        assert encode(whole).startswith(encode(other)) == (begins and same_kinds)


@given(tuples, tuples)
def test_a_component_ends_where_the_next_begins(
    one: tuple[Component, ...], other: tuple[Component, ...]
) -> None:
    key, place = encode(one) + encode(other), 0
    for _ in one:
        place = component_end(key, place)
    assert place == len(encode(one))


@given(st.binary(max_size=5), st.binary(max_size=6))
def test_the_end_of_a_prefix_is_above_all_that_begin_with_it(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)
    assert key.startswith(prefix) == (prefix <= key and (end is None or key < end))


parts = st.sampled_from(["", "a", "ab", "b", "\x00", "\x01", "ÿ"])
keys = st.lists(parts, max_size=3).map(lambda names: encode(tuple(names)))
spread = st.integers(0, 400).map(lambda number: encode(("n", number // 20, number)))
values = st.binary(max_size=3) | st.binary(min_size=300, max_size=300)


class IndexAgainstDict(Machine):
    """Changes are gathered and finished in between; every reading must agree at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[bytes] = []
        self.oracle: dict[bytes, bytes] = {}
        self.index = Index.empty(BYTES, NodeCache(self.load))
        self.update = IndexUpdate(self.index, self.write, TINY)

    def load(self, ids: Sequence[int]) -> list[bytes]:
        return [self.rows[id_] for id_ in ids]

    def write(self, data: bytes) -> int:
        self.rows.append(data)
        return len(self.rows) - 1

    @rule(key=keys | spread, value=values)
    def put(self, key: bytes, value: bytes) -> None:
        self.update.put(key, value)
        self.oracle[key] = value

    @rule(chosen=st.lists(spread, max_size=60), value=values)
    def put_many(self, chosen: list[bytes], value: bytes) -> None:
        for key in chosen:
            self.put(key, value)

    @rule(key=keys | spread)
    def remove(self, key: bytes) -> None:
        self.update.remove(key)
        self.oracle.pop(key, None)

    @rule(data=st.data())
    @precondition(lambda self: self.oracle)
    def remove_known(self, data: st.DataObject) -> None:
        for key in data.draw(st.sets(st.sampled_from(sorted(self.oracle)))):
            self.remove(key)

    @rule(forget=st.booleans())
    def finish(self, forget: bool) -> None:
        self.index = self.update.finish()
        if forget:
            data = self.index.to_bytes()
            self.index = Index.parse(data, BYTES, NodeCache(self.load, kept_bytes=300))
            assert self.index.to_bytes() == data
        self.update = IndexUpdate(self.index, self.write, TINY)

    @rule(start=keys | spread, stop=st.none() | keys | spread, reverse=st.booleans())
    def read_range(self, start: bytes, stop: bytes | None, reverse: bool) -> None:
        expected = [
            (key, value)
            for key, value in sorted(self.oracle.items(), reverse=reverse)
            if key >= start and (stop is None or key < stop)
        ]
        assert list(self.update.items(start, stop, reverse=reverse)) == expected

    @rule(prefix=keys | spread, reverse=st.booleans())
    def read_prefix(self, prefix: bytes, reverse: bool) -> None:
        found = sorted(self.oracle.items(), reverse=reverse)
        expected = [(key, value) for key, value in found if key.startswith(prefix)]
        assert list(self.update.prefix(prefix, reverse=reverse)) == expected

    @rule(prefix=keys | st.just(encode(("n",))))
    def read_heads(self, prefix: bytes) -> None:
        depth = len(decode(prefix))
        under = (decode(key) for key in self.oracle if key.startswith(prefix))
        expected = {encode(names[: depth + 1]) for names in under if len(names) > depth}
        assert list(self.update.heads(prefix)) == sorted(expected)

    @rule(key=keys | spread)
    def read_one(self, key: bytes) -> None:
        assert self.update.get(key) == self.oracle.get(key)
        assert (key in self.update) == (key in self.oracle)

    @invariant()
    def everything_is_there(self) -> None:
        assert list(self.update.items()) == sorted(self.oracle.items())

    @invariant()
    def descriptors_tell_the_truth(self) -> None:
        nodes = self.index.tree.nodes
        *pages, stripes = self.index.tree.levels()
        for child, leaf in zip(stripes, nodes.fetch([child.id for child in stripes]), strict=True):
            entries = dict(leaf.entries())
            assert (child.first, child.last) == (min(entries), max(entries))
            assert (child.count, child.size) == (len(entries), len(leaf.data))
        for level in pages:
            assert sum(child.count for child in level) == len(self._tree_keys())
            assert all(_holds_one(level, key) for key in self._tree_keys())

    def _tree_keys(self) -> list[bytes]:
        return [key for key, _ in self.index.tree.entries(b"", None, reverse=False)]


def _holds_one(level: Sequence[Child], key: bytes) -> bool:
    return sum(child.spans(key) for child in level) == 1


TestIndexAgainstDict = IndexAgainstDict.TestCase
TestIndexAgainstDict.settings = examples(40, steps=40)


@given(st.lists(st.lists(st.tuples(spread, values), max_size=30), max_size=6))
def test_the_same_changes_give_the_same_bytes(batches: list[list[tuple[bytes, bytes]]]) -> None:
    assert _written(batches) == _written([list(dict(batch).items())[::-1] for batch in batches])


def _written(batches: list[list[tuple[bytes, bytes]]]) -> list[bytes]:
    rows: list[bytes] = []

    def write(data: bytes) -> int:
        rows.append(data)
        return len(rows) - 1

    index = Index.empty(BYTES, NodeCache(lambda ids: [rows[id_] for id_ in ids]))
    for batch in batches:
        update = IndexUpdate(index, write, TINY)
        for key, value in batch:
            update.put(key, value)
        index = update.finish()
    return [*rows, index.to_bytes()]
