"""Listings that do not end, and those that are merely long."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, cycle, islice

import pytest

from lakesweep.paging import MOST_IDLE_PAGES, PageTrail


def problem(tokens: Iterable[str], *, found: bool = True, most_pages: int = 1000) -> str | None:
    """What is wrong with a listing, if anything, and before its next thousand pages."""
    trail = PageTrail()
    for token in islice(tokens, 1000):
        trail = trail.follow(token, found=found, most_pages=most_pages + 1)
        if trail.problem:
            return trail.problem
    return None


@pytest.mark.parametrize("length", [1, 2, 3, 7, 100])
def test_tokens_that_come_round_are_noticed(length: int) -> None:
    first = (f"first-{number}" for number in range(10))
    again = cycle([f"again-{number}" for number in range(length)])
    assert "came twice" in str(problem(chain(first, again)))


def test_pages_without_anything_new_are_noticed() -> None:
    tokens = [str(number) for number in range(2 * MOST_IDLE_PAGES)]
    assert "nothing new" in str(problem(tokens, found=False))
    assert problem(tokens[: MOST_IDLE_PAGES - 1], found=False) is None


def test_more_pages_than_any_listing_has_are_noticed() -> None:
    tokens = [str(number) for number in range(100)]
    assert problem(tokens) is None
    assert "more than 50 pages" in str(problem(tokens, most_pages=49))
