"""Cutting many rows into what one request carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Lists of at most so many items."""
    rest = iter(items)
    while batch := list(islice(rest, most)):
        yield batch


def sized_batches(
    items: Iterable[Item], most: int, size: Callable[[Item], int], most_bytes: int
) -> Iterator[list[Item]]:
    """Lists of at most so many items and bytes, but for one item that has more by itself."""
    batch: list[Item] = []
    room = most_bytes
    for item in items:
        taken = size(item)
        if batch and (len(batch) == most or taken > room):
            yield batch
            batch, room = [], most_bytes
        batch.append(item)
        room -= taken
    if batch:
        yield batch
