"""What a process does that adds pages to a book until it is killed; it loads no more than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lakesweep.store import LINKS, NO_INDEX, Attempt, Change, Commit, IndexRoot, Store, key, seal

#: An object of so many bytes lies in several rows.
LARGE_BYTES = 800_000


class Page(msgspec.Struct, frozen=True):
    text: str


class Book(Commit, frozen=True, kw_only=True):
    """A head with an index that outgrows it, and whose pages may be large."""

    pages: IndexRoot = NO_INDEX


TYPES: dict[str, Any] = {"page": Page, "book": Book}
Add = Callable[[Attempt[Book]], Book]


def add_page(writer: int, number: int) -> Add:
    """A change that adds one page, every fifth of them a large one."""
    large = number % 5 == 0

    def change(attempt: Attempt[Book]) -> Book:
        head = attempt.head or Book()
        pages = attempt.index(head.pages, LINKS)
        text = "x" * LARGE_BYTES if large else f"{writer}/{number} " * 50
        pages.put(key(writer, number), attempt.write(Page(text)))
        attempt.record(Change("add", key(writer, number)))
        return Book(pages=seal(pages))

    return change


def write_for_ever(url: str, writer: int) -> None:
    """Commit one page after another."""
    with Store.open(url, types=TYPES) as store:
        realm = store.realm("acme")
        number = 0
        while True:
            number += 1
            realm.commit("main", add_page(writer, number), Book)
