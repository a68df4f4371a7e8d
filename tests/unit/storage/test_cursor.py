"""Listings whose tokens repeat, or that never end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle, islice

import pytest

from lakesweep.errors import StorageError
from lakesweep.storage.cursor import PageToken, next_page

LOCATION = "s3://lake/t/"


def follow(pages: Iterator[tuple[str, list[str]]], most: int = 20_000) -> int:
    """Follow a listing; returns the number of its pages."""
    cursor: PageToken | None = None
    for token, names in islice(pages, most):
        cursor = next_page(LOCATION, cursor, token, names, names[-1] if names else "")
    return cursor.pages if cursor else 0


@pytest.mark.parametrize("length", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("before", [0, 1, 50])
def test_tokens_that_repeat_are_noticed(length: int, before: int) -> None:
    straight = ((f"token {n}", [f"a{n}"]) for n in range(before))
    circle = cycle([(f"round {n}", [f"b{n}"]) for n in range(length)])
    with pytest.raises(StorageError, match=f"^{LOCATION}: the listing does not end"):
        follow(iter([*straight, *islice(circle, 4 * (before + length) + 10)]))


@pytest.mark.parametrize("length", [1, 5])
def test_names_that_repeat_under_new_tokens_are_noticed(length: int) -> None:
    names = cycle([[f"b{n}"] for n in range(length)])
    with pytest.raises(StorageError, match="does not end"):
        follow(zip(map(str, count()), names, strict=False))


def test_pages_without_names_are_bounded() -> None:
    assert follow((str(n), []) for n in range(900)) == 900
    with pytest.raises(StorageError, match="does not end"):
        follow((str(n), []) for n in count())


def test_a_long_listing_is_no_endless_one() -> None:
    assert follow((str(n), [f"{n:08}"] if n % 3 else []) for n in range(20_000)) == 20_000
