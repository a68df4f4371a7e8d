"""Realms of all sorts come through an export and an import as they were, or not at all."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.clock import ManualClock
from lakesweep.errors import LakesweepError
from lakesweep.store import BYTES, LINKS, Attempt, Link, Realm, Store, seal
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.objects.object_types import UnknownObject
from lakesweep.store.realms.reachability import reach
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.transfer import ExportKind, Imported, content_hash, import_realm
from lakesweep.store.transfer.export_file import ExportReader
from lakesweep.store.transfer.realm_export import snapshot
from tests.libraries import (
    ENTRIES,
    LARGE,
    Page,
    Shelf,
    commit,
    export_bytes,
    long_key,
    open_store,
    shelve,
)
from tests.moments import NOON
from tests.random_tests import examples

_LATER = NOON + timedelta(hours=1)
_DATA = Path(__file__).parents[1] / "data"
_SLOW = examples(10)
_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
_TITLES = st.lists(st.integers(0, 200).map(str), min_size=1, max_size=60, unique=True)


@dataclass(frozen=True)
class Deed:
    """One change behind a reference."""

    reference: int
    action: str
    titles: Sequence[str]
    seed: int


_DEEDS = st.lists(
    st.builds(
        Deed,
        st.integers(0, 3),
        st.sampled_from(["shelve", "shelve", "remove", "alien", "change", "large", "chain"]),
        _TITLES,
        st.integers(0, 99),
    ),
    max_size=10,
)


def _build(store: Store, names: Sequence[str], deeds: Sequence[Deed]) -> Realm:
    realm = store.create_realm("acme")
    references = [*names, "root"]
    realm.references.ensure(names)
    for deed in deeds:
        _do(realm, references[deed.reference % len(references)], deed)
    return realm


def _do(realm: Realm, reference: str, deed: Deed) -> None:
    random = Random(deed.seed)
    match deed.action:
        case "shelve":
            shelve(realm, reference, list(deed.titles), size=deed.seed)
        case "remove":
            commit(realm, reference, lambda attempt: _without(attempt, deed.titles))
        case "alien":
            _lead_to(realm, reference, UnknownObject("alien", b"\xc4\x03" + random.randbytes(3)))
        case "large":
            _lead_to(realm, reference, Page("".join(random.choices("ab", k=LARGE))))
        case "chain":
            last = realm.objects.write(realm.new_id(), Page("last")).id
            _lead_to(realm, reference, Page("first", Link(last)))
        case "change":
            stored = realm.objects.insert(realm.new_id(), Page("before"))
            assert stored is not None
            realm.objects.update(stored, Page("after"))
            commit(realm, reference, lambda _: Shelf(first=Link(stored.id)))


def _lead_to(realm: Realm, reference: str, value: Page | UnknownObject) -> None:
    number = realm.objects.write(realm.new_id(), value).id
    commit(realm, reference, lambda attempt: _with_first(attempt, number))


def _with_first(attempt: Attempt[Shelf], number: int) -> Shelf:
    head = attempt.head or Shelf()
    return Shelf(first=Link(number), books=head.books, entries=head.entries, blobs=head.blobs)


def _without(attempt: Attempt[Shelf], titles: Sequence[str]) -> Shelf:
    head = attempt.head or Shelf()
    books = attempt.index(head.books, LINKS)
    for title in titles:
        books.remove(long_key(title))
    return Shelf(first=head.first, books=seal(books), entries=head.entries, blobs=head.blobs)


def _seen(realm: Realm) -> set[int]:
    """All that can be seen of a realm by those who know its types, one commit after another."""
    seen: set[int] = set()
    for reference in realm.references.list():
        for stored in realm.log(reference.name):
            shelf = stored.value
            assert isinstance(shelf, Shelf)
            books = realm.index(shelf.books, LINKS)
            entries = realm.index(shelf.entries, ENTRIES)
            values = [entry for _, entry in entries.items()]
            seen |= {stored.id, *books.node_ids(), *entries.node_ids()}
            seen |= set(realm.index(shelf.blobs, BYTES).node_ids())
            for number in (
                *(link for _, link in books.items()),
                *(entry.page for entry in values),
                *(link for entry in values for _, link in realm.index(entry.words, LINKS).items()),
                *([shelf.first] if shelf.first is not None else []),
            ):
                seen |= set(_pages(realm, number, seen))
    return seen


def _pages(realm: Realm, number: int | None, seen: set[int]) -> Sequence[int]:
    found: list[int] = []
    while number is not None and number not in seen:
        found.append(number)
        stored = realm.objects.fetch(number, object)
        assert stored is not None
        number = stored.value.following if isinstance(stored.value, Page) else None
    return found


def _import(store: Store, data: bytes, name: str | None = None) -> Imported:
    pipe = io.BufferedReader(io.BytesIO(data))
    return import_realm(store, pipe, name=name, clock=ManualClock(_LATER))


@_SLOW
@given(st.lists(_NAMES, max_size=3, unique=True), _DEEDS)
def test_a_walk_reaches_what_can_be_seen_and_nothing_else(
    names: list[str], deeds: list[Deed]
) -> None:
    realm = _build(open_store(), names, deeds)
    reached = [each.id for each in reach(realm, snapshot(realm))]
    assert set(reached) == _seen(realm)
    assert len(reached) == len(set(reached))


@_SLOW
@given(
    st.lists(_NAMES, max_size=3, unique=True),
    _DEEDS,
    st.sampled_from(ExportKind),
    st.none() | st.integers(1, 5),
)
def test_a_realm_comes_through_as_it_was(
    names: list[str], deeds: list[Deed], kind: ExportKind, history: int | None
) -> None:
    source = open_store()
    realm = _build(source, names, deeds)
    history = None if kind is ExportKind.ROWS else history
    target = open_store(clock=ManualClock(_LATER))
    _import(target, export_bytes(source, kind=kind, history=history))
    copy = target.realm("acme")
    assert content_hash(copy) == content_hash(realm, history=history)
    assert list(map(str, snapshot(copy))) == list(map(str, snapshot(realm)))


def _golden(kind: ExportKind) -> bytes:
    return (_DATA / f"export-{kind}.ndjson").read_bytes()


@pytest.mark.parametrize("kind", list(ExportKind))
def test_a_flipped_bit_anywhere_is_seen(kind: ExportKind) -> None:
    data, random = bytearray(_golden(kind)), Random(7)
    for place in range(len(data)):
        bit = 1 << random.randrange(8)
        data[place] ^= bit
        with pytest.raises(LakesweepError):
            list(ExportReader(io.BufferedReader(io.BytesIO(data)), "x").items())
        data[place] ^= bit


def _is_closed(store: Store) -> bool:
    open_states = {RealmStatus.ACTIVE, RealmStatus.INACTIVE}
    return all(realm.status not in open_states for realm in store.realms.list())


@given(st.sampled_from(ExportKind), st.data())
def test_nothing_becomes_active_of_a_damaged_export(kind: ExportKind, draw: st.DataObject) -> None:
    data = bytearray(_golden(kind))
    place = draw.draw(st.integers(0, len(data) - 1))
    if draw.draw(st.booleans()):
        data[place] ^= draw.draw(st.integers(1, 255))
    else:
        del data[place : place + draw.draw(st.integers(1, len(data)))]
    store = open_store(clock=ManualClock(_LATER))
    with pytest.raises(LakesweepError):
        _import(store, bytes(data))
    assert _is_closed(store)


@pytest.mark.parametrize("kind", list(ExportKind))
def test_an_export_that_is_cut_behind_any_line_is_finished_by_the_whole_one(
    kind: ExportKind,
) -> None:
    data = _golden(kind)
    lines = data.splitlines(keepends=True)
    store = open_store(clock=ManualClock(_LATER))
    for count in range(1, len(lines)):
        with pytest.raises(LakesweepError):
            _import(store, b"".join(lines[:count]))
        assert _is_closed(store)
    assert not _import(store, data).repeated


@given(
    st.sampled_from(ExportKind),
    st.lists(st.just(BackendFault.NONE) | st.sampled_from(BackendFault), max_size=120),
)
def test_an_import_over_a_failing_database_is_repeated_until_it_is_done(
    kind: ExportKind, faults: list[BackendFault]
) -> None:
    memory, clock = MemoryBackend(), ManualClock(_LATER)
    neighbour = open_store(memory, clock).create_realm("other")
    commit(neighbour, "root", lambda _: Shelf())
    before = content_hash(neighbour)
    waiting = deque(faults)
    backend = FaultyBackend(
        memory, lambda _: waiting.popleft() if waiting else BackendFault.NONE, clock
    )
    store = open_store(backend, clock)
    imported = None
    while imported is None:
        with suppress(LakesweepError):
            imported = _import(store, _golden(kind))
    backend.land_late_writes()
    fresh = open_store(memory, clock)
    assert fresh.realms.get("acme").status is RealmStatus.ACTIVE
    source = open_store(clock=clock)
    _import(source, _golden(kind))
    assert content_hash(fresh.realm("acme")) == content_hash(source.realm("acme"))
    assert content_hash(fresh.realm("other")) == before
