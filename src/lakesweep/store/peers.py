"""How the caches of several processes tell each other what changed, but never what it changed to.

Without it everything is right as well: a reference is only remembered for moments. With it those
moments may be longer, and rows that were deleted leave the memory of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from lakesweep.store.backend import Reference

_MOST_KEYS = 50


class ReferenceMoved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    """A reference has this version now; being deleted counts as one more, without a pointer."""

    realm: str
    name: str
    created_at: int
    version: int
    pointer: int | None


class RowsGone(msgspec.Struct, frozen=True, tag="rows", array_like=True):
    """These rows, by id and part, were deleted."""

    realm: str
    keys: tuple[tuple[int, int], ...]


class RealmGone(msgspec.Struct, frozen=True, tag="realm", array_like=True):
    """All rows and references of a realm were deleted."""

    realm: str


Message: TypeAlias = ReferenceMoved | RowsGone | RealmGone


class Peers(Protocol):
    """The caches of other processes."""

    def publish(self, messages: Sequence[Message]) -> None:
        """Send messages to all others, each of which hands them to its `Cache.accept`.

        It is called by whoever changed something, right afterwards, so it should not wait for
        anybody. A message may be lost, come twice, late or in another order. What is raised is
        counted and has no other effect: the change has happened.
        """
        ...


def moved(realm: str, reference: Reference) -> ReferenceMoved:
    """What others are told of a reference that was created or swapped."""
    created_at, version = reference.created_at, reference.version
    return ReferenceMoved(realm, reference.name, created_at, version, reference.pointer)


def deleted(realm: str, reference: Reference) -> ReferenceMoved:
    """What others are told of a reference that was deleted."""
    created_at, version = reference.created_at, reference.version + 1
    return ReferenceMoved(realm, reference.name, created_at, version, None)


def rows_gone(realm: str, keys: Sequence[tuple[int, int]]) -> Sequence[RowsGone]:
    """What others are told of rows that were deleted, in messages of limited size."""
    return [
        RowsGone(realm, tuple(keys[start : start + _MOST_KEYS]))
        for start in range(0, len(keys), _MOST_KEYS)
    ]
