""""""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import DamagedRowError, HeadMissingError, NewerRowError
from lakesweep.store import LINKS, Attempt, Link, Realm, seal
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.objects.links import IndexRoot, ValueKind
from lakesweep.store.realms.reachability import IdSet, reach
from lakesweep.store.transfer.realm_export import snapshot
from tests.asked_backend import AskedBackend
from tests.libraries import ENTRIES, Page, Shelf, commit, fill, long_key, open_store, shelve

_IDS = st.integers(0, 2**63 - 1) | st.integers(0, 30)


@pytest.fixture
def realm() -> Realm:
    return open_store().create_realm("acme")


def _reached(realm: Realm, history: int | None = None) -> list[int]:
    return [each.id for each in reach(realm, snapshot(realm), history=history)]


def _delete(realm: Realm, number: int) -> None:
    realm.backend.delete(realm.name, [RowKey(number)])


def _all_ids(realm: Realm) -> set[int]:
    return {row.id for row in realm.backend.scan_rows(realm.name)}


def _chain(realm: Realm, length: int) -> Iterator[int]:
    """Pages that lead to each other, the last one first."""
    following = None
    for _ in range(length):
        following = Link(realm.objects.write(realm.new_id(), Page("p", following)).id)
        yield following


def test_everything_is_reached_once() -> None:
    realm = fill(open_store())
    found = _reached(realm)
    assert set(found) == _all_ids(realm)
    assert len(found) == len(set(found))


def test_objects_come_as_they_are_stored() -> None:
    realm = fill(open_store())
    stored = realm.objects.undecoded()
    for each in reach(realm, snapshot(realm)):
        value = stored.fetch(each.id, object)
        assert value is not None
        assert (each.created_at, each.token) == (value.created_at, value.token)
        assert (each.type, each.payload) == (value.value.type, value.value.payload)  # type: ignore[attr-defined]


def test_a_realm_without_commits_leads_nowhere(realm: Realm) -> None:
    assert _reached(realm) == []


def test_what_nothing_leads_to_is_not_reached(realm: Realm) -> None:
    [lost] = _chain(realm, 1)
    head = commit(realm, "root", lambda _: Shelf())
    assert _reached(realm) == [head]
    assert lost in _all_ids(realm)


def test_objects_that_lead_in_a_circle_are_reached_once(realm: Realm) -> None:
    one, other = realm.new_id(), realm.new_id()
    realm.objects.write(one, Page("one", Link(other)))
    realm.objects.write(other, Page("other", Link(one)))
    head = commit(realm, "root", lambda _: Shelf(first=Link(one)))
    assert sorted(_reached(realm)) == sorted([one, other, head])


@pytest.mark.parametrize("history", [1, 2, 20, 21, 22, 45, 100])
def test_so_many_commits_of_each_log_count(realm: Realm, history: int) -> None:
    heads = [commit(realm, "root", lambda _: Shelf()) for _ in range(50)]
    assert _reached(realm, history) == heads[::-1][:history]


def test_a_log_is_over_where_a_commit_is_gone(realm: Realm) -> None:
    heads = [commit(realm, "root", lambda _: Shelf()) for _ in range(50)]
    _delete(realm, heads[17])
    assert _reached(realm) == heads[:17:-1]


def test_references_that_share_a_log_reach_each_as_far_as_wanted(realm: Realm) -> None:
    heads = [commit(realm, "root", lambda _: Shelf()) for _ in range(10)]
    realm.references.create("behind", heads[5])
    assert sorted(_reached(realm, 3)) == sorted([*heads[7:], *heads[3:6]])


def test_no_commit_at_all_is_no_history(realm: Realm) -> None:
    with pytest.raises(ValueError, match="head"):
        _reached(realm, 0)


def test_a_reference_to_what_is_no_commit_leads_on(realm: Realm) -> None:
    end, first = _chain(realm, 2)
    realm.references.create("page", first)
    assert _reached(realm) == [first, end]


def test_it_takes_few_round_trips() -> None:
    backend = AskedBackend(MemoryBackend())
    realm = open_store(backend).create_realm("acme")
    for start in range(0, 400, 20):
        shelve(realm, "root", [f"{number}" for number in range(start, start + 20)])
    backend.asked.clear()
    count = len(_reached(realm))
    assert count > 1_600
    assert backend.asked["objects"] < 40
    assert backend.asked["rows"] == count


def test_a_missing_head_is_told_with_its_reference(realm: Realm) -> None:
    head = commit(realm, "root", lambda _: Shelf())
    _delete(realm, head)
    with pytest.raises(HeadMissingError, match=f"the head {head} of reference 'root' is missing"):
        _reached(realm)


def test_a_damaged_head_names_the_command_that_goes_back(realm: Realm) -> None:
    head = commit(realm, "root", lambda _: Shelf())
    [row] = realm.backend.fetch(realm.name, [RowKey(head)]).values()
    realm.backend.write(realm.name, [row._replace(value=row.value[:-1])])
    with pytest.raises(DamagedRowError) as caught:
        _reached(realm)
    assert caught.value.hint.startswith(f"lakesweep store recover root --realm {realm.name} ")


def test_the_way_to_a_missing_object_is_told(realm: Realm) -> None:
    last, middle, first = _chain(realm, 3)
    head = commit(realm, "root", lambda _: Shelf(first=Link(first)))
    commit(realm, "root", lambda _: Shelf())
    _delete(realm, last)
    with pytest.raises(DamagedRowError) as caught:
        _reached(realm)
    assert caught.value.message == (
        f"object {last} is missing; reached by reference 'root' → commit {head} → "
        f"object {first} → object {middle} → object {last}"
    )
    assert "--history 1" in caught.value.hint
    assert len(_reached(realm, 1)) == 1


def test_the_way_through_an_index_is_told(realm: Realm) -> None:
    titles = [f"{number:03}" for number in range(150)]
    head = shelve(realm, "root", titles)
    stored = realm.objects.fetch(head, Shelf)
    assert stored is not None
    books = realm.index(stored.value.books, LINKS)
    [*nodes] = books.node_ids()
    lost = books.get(long_key("077"))
    assert lost is not None
    _delete(realm, lost)
    with pytest.raises(DamagedRowError) as caught:
        _reached(realm)
    way = caught.value.message.split(" → ")
    assert way[1:2] == [f"commit {head}"]
    assert way[-2] in {f"index node {number}" for number in nodes}
    assert way[-1] == f"object {lost}"


def test_the_way_to_a_missing_node_is_told(realm: Realm) -> None:
    head = shelve(realm, "root", [f"{number:03}" for number in range(150)])
    stored = realm.objects.fetch(head, Shelf)
    assert stored is not None
    [*_, node] = realm.index(stored.value.entries, ENTRIES).node_ids()
    _delete(realm, node)
    with pytest.raises(DamagedRowError, match=f"index node {node} is missing; .* commit {head} →"):
        _reached(realm)


def test_the_way_to_a_damaged_object_is_told(realm: Realm) -> None:
    [page] = _chain(realm, 1)
    head = commit(realm, "root", lambda _: Shelf(first=Link(page)))
    [row] = realm.backend.fetch(realm.name, [RowKey(page)]).values()
    realm.backend.write(realm.name, [row._replace(value=row.value[:-1])])
    with pytest.raises(DamagedRowError, match=f"checksum .* commit {head} → object {page}"):
        _reached(realm)


def test_a_row_of_a_newer_program_is_told_as_such(realm: Realm) -> None:
    head = commit(realm, "root", lambda _: Shelf())
    [row] = realm.backend.fetch(realm.name, [RowKey(head)]).values()
    realm.backend.write(realm.name, [row._replace(value=b"\x09" + row.value[1:])])
    with pytest.raises(NewerRowError, match=f"reference 'root' → commit {head}"):
        _reached(realm)


def test_a_node_that_is_used_in_two_ways_is_damage(realm: Realm) -> None:
    shelve(realm, "root", [f"{number:03}" for number in range(150)])
    head = realm.head("root", Shelf)
    assert head is not None
    blobs = IndexRoot.of(head.value.books.data, ValueKind.OPAQUE)
    commit(realm, "root", lambda _: Shelf(books=head.value.books, blobs=blobs))
    with pytest.raises(DamagedRowError, match="used as something else"):
        _reached(realm)


def test_what_a_newer_entry_overrides_is_still_reached(realm: Realm) -> None:
    """The stripe still names it, and a stripe is read once for all commits that share it."""
    shelve(realm, "root", [f"{number:03}" for number in range(150)])
    old = realm.head("root", Shelf)
    assert old is not None
    before = realm.index(old.value.books, LINKS).get(long_key("077"))

    def override(attempt: Attempt[Shelf]) -> Shelf:
        books = attempt.index(old.value.books, LINKS)
        books.put(long_key("077"), attempt.write(Page("new")))
        return Shelf(books=seal(books))

    commit(realm, "root", override)
    assert before in _reached(realm, 1)


@pytest.mark.parametrize("quick_rows", [1, 10**9])
def test_many_objects_are_read_quickly_and_exactly_alike(
    monkeypatch: pytest.MonkeyPatch, quick_rows: int
) -> None:
    monkeypatch.setattr("lakesweep.store.realms.link_reader.QUICK_ROWS", quick_rows)
    realm = fill(open_store())
    shelve(realm, "root", [f"{number}" for number in range(700)])
    stored = realm.objects.undecoded()
    found = list(reach(realm, snapshot(realm)))
    assert {each.id for each in found} == _all_ids(realm)
    assert len({each.id for each in found}) == len(found)
    for each in found[::50]:
        value = stored.fetch(each.id, object)
        assert value is not None
        assert each.payload == value.value.payload  # type: ignore[attr-defined]


@pytest.mark.parametrize("quick_rows", [1, 10**9])
def test_one_bad_object_among_many_is_named(
    monkeypatch: pytest.MonkeyPatch, realm: Realm, quick_rows: int
) -> None:
    monkeypatch.setattr("lakesweep.store.realms.link_reader.QUICK_ROWS", quick_rows)
    pages = [realm.objects.write(realm.new_id(), Page("p")).id for _ in range(300)]

    def put_up(attempt: Attempt[Shelf]) -> Shelf:
        books = attempt.index(Shelf().books, LINKS)
        for number in pages:
            books.put(b"%d" % number, Link(number))
        return Shelf(books=seal(books))

    commit(realm, "root", put_up)
    [row] = realm.backend.fetch(realm.name, [RowKey(pages[7])]).values()
    realm.backend.write(realm.name, [row._replace(value=row.value[:-1])])
    with pytest.raises(DamagedRowError, match=f"object {pages[7]}: .* reference 'root' → commit"):
        _reached(realm)
    _delete(realm, pages[7])
    with pytest.raises(DamagedRowError, match=f"object {pages[7]} is missing; reached by"):
        _reached(realm)


@given(st.lists(st.lists(_IDS, max_size=20), max_size=40))
def test_each_id_is_new_once(batches: list[list[int]]) -> None:
    ids, seen = IdSet(), set[int]()
    for batch in batches:
        assert ids.add(batch).tolist() == sorted(set(batch) - seen)
        seen.update(batch)
    assert len(ids) == len(seen)


def test_an_id_takes_no_more_than_sixteen_bytes() -> None:
    count, batch = 2**18, 2**10
    scattered = np.random.default_rng(1).permutation(count).astype(np.int64)
    ids = IdSet()
    tracemalloc.start()
    for start in range(0, count, batch):
        ids.add(scattered[start : start + batch])
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 8.5 * count
    assert peak < 16.5 * count  # while the two longest runs become one
