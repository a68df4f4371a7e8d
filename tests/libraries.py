"""Realms with something of everything that an object can lead to."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from lakesweep.clock import Clock, ManualClock
from lakesweep.store import (
    BYTES,
    LINKS,
    NO_INDEX,
    Attempt,
    Commit,
    IndexRoot,
    Link,
    Packed,
    Realm,
    Store,
    key,
    seal,
)
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.objects.object_types import UnknownObject
from lakesweep.store.transfer import Exported, ExportKind, export_realm
from tests.moments import NOON


class Page(msgspec.Struct, frozen=True):
    """An object that may lead to the next."""

    text: str = ""
    following: Link | None = None


class Entry(msgspec.Struct, frozen=True):
    """A value of an index that leads to an object, and has an index of its own."""

    page: Link
    words: IndexRoot = NO_INDEX


class Shelf(Commit, frozen=True, kw_only=True):
    """A head that leads to others in every way."""

    first: Link | None = None
    books: IndexRoot = NO_INDEX
    entries: IndexRoot = NO_INDEX
    blobs: IndexRoot = NO_INDEX


TYPES: dict[str, type[msgspec.Struct]] = {"page": Page, "shelf": Shelf}
ENTRIES = Packed(Entry)
#: Larger than one row, and than one piece of an export.
LARGE = 800_000


def open_store(backend: Backend | None = None, clock: Clock | None = None) -> Store:
    """A store that knows the types of libraries, in memory unless there is a backend."""
    return Store(backend or MemoryBackend(), types=TYPES, clock=clock or ManualClock(NOON))


def shelve(realm: Realm, reference: str, titles: list[str], *, size: int = 20) -> int:
    """Commit a book for each title, with keys so long that few of them fill a stripe."""
    return commit(realm, reference, lambda attempt: _shelved(attempt, titles, size))


def commit(realm: Realm, reference: str, change: Callable[[Attempt[Shelf]], Shelf]) -> int:
    """The id of a new commit."""
    head = realm.commit(reference, change, Shelf, message="m", author="a").head
    assert head is not None
    return head.id


def long_key(title: str) -> bytes:
    return key(title, "x" * 1_000)


def _shelved(attempt: Attempt[Shelf], titles: list[str], size: int) -> Shelf:
    head = attempt.head or Shelf()
    books = attempt.index(head.books, LINKS)
    entries = attempt.index(head.entries, ENTRIES)
    blobs = attempt.index(head.blobs, BYTES)
    for title in titles:
        second = attempt.write(Page(title * size))
        first = attempt.write(Page(title, second))
        books.put(long_key(title), first)
        words = attempt.index(NO_INDEX, LINKS)
        words.put(key("word"), attempt.write(Page(f"word of {title}")))
        entries.put(long_key(title), Entry(attempt.write(Page(f"entry {title}")), seal(words)))
        blobs.put(long_key(title), title.encode() * size)
    return Shelf(
        first=attempt.write(Page("first")),
        books=seal(books),
        entries=seal(entries),
        blobs=seal(blobs),
    )


def fill(store: Store, name: str = "acme") -> Realm:
    """A realm with indexes in stripes, a large object, one of an unknown type, a changed one."""
    realm = store.create_realm(name, {"owner": "jane"})
    realm.references.create("main")
    realm.references.create("Ärger / 'quoted' \n☃")
    for start in range(0, 120, 40):
        shelve(realm, "main", [f"book {number:03d}" for number in range(start, start + 40)])
    shelve(realm, "Ärger / 'quoted' \n☃", ["ä"])
    large = "".join(Random(5).choices("abcdef ", k=LARGE))
    commit(realm, "root", lambda attempt: Shelf(first=attempt.write(Page(large))))
    commit(realm, "grants", lambda attempt: Shelf(first=Link(_alien(realm))))
    commit(realm, "catalogs", lambda attempt: Shelf(first=Link(_changed(realm))))
    return realm


def _alien(realm: Realm) -> int:
    """An object of a type that nobody knows, which leads to another one."""
    end = realm.objects.write(realm.new_id(), Page("the end")).id
    payload = msgspec.msgpack.encode([1.5, msgspec.msgpack.Ext(1, end.to_bytes(8, "big"))])
    return realm.objects.write(realm.new_id(), UnknownObject("alien", payload)).id


def _changed(realm: Realm) -> int:
    """An object that was written conditionally, twice."""
    stored = realm.objects.insert(realm.new_id(), Page("before"))
    assert stored is not None
    changed = realm.objects.update(stored, Page("after"))
    assert changed is not None
    return changed.id


def export_bytes(
    store: Store,
    name: str = "acme",
    *,
    kind: ExportKind = ExportKind.LIVE,
    history: int | None = None,
) -> bytes:
    """An export, as it would be in a file."""
    sink = io.BytesIO()
    export_realm(store, name, sink.write, kind=kind, history=history, clock=ManualClock(NOON))
    return sink.getvalue()


def export_file(
    store: Store, path: Path, name: str = "acme", kind: ExportKind = ExportKind.LIVE
) -> Exported:
    with path.open("wb") as file:
        return export_realm(store, name, file.write, kind=kind, clock=ManualClock(NOON))
