"""A store whose deletes can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from lakesweep.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    LakesweepError,
    LockedError,
    MissingError,
    ThrottledError,
)
from lakesweep.storage.address import Address
from lakesweep.storage.expected import CHANGED, Expected, is_expected
from lakesweep.storage.moving import finish_move, is_there
from lakesweep.storage.places import Places
from lakesweep.storage.store import Capabilities, Deletion, ObjectStore, Outcome
from lakesweep.storage.wrappers.wrapped import Wrapped

#: A rename is as quick as a delete; a copy is several requests, and waits for each.
_RENAMES_AT_ONCE = 250
_PARALLEL_COPIES = 32

_REPLACED = "another file has its key by now"


class Way(StrEnum):
    """How a file is set aside: renamed, copied and deleted, or left below a delete marker."""

    RENAME = "rename"
    COPY = "copy"
    MARKER = "marker"


def way_of(store: ObjectStore) -> Way:
    """The cheapest way in which a store can undo a delete."""
    if store.keeps_versions():
        return Way.MARKER
    return Way.RENAME if store.capabilities.renames else Way.COPY


class Undoable(Wrapped):
    """Sets aside what it is told to delete.

    Whatever happens between two steps, a file is at its key, in quarantine, or at both, and the
    same call made again goes on from there.
    """

    def __init__(self, store: ObjectStore, root: Address, places: Places) -> None:
        super().__init__(store)
        self.way = way_of(store)
        self._root = root
        self._places = places

    @property
    def capabilities(self) -> Capabilities:
        found = self.store.capabilities
        match self.way:
            case Way.MARKER:
                return found
            case Way.RENAME:
                return replace(found, delete_batch=min(_RENAMES_AT_ONCE, found.delete_batch))
            case Way.COPY:
                return replace(found, delete_batch=1, parallel_deletes=_PARALLEL_COPIES)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        if self.way is Way.MARKER:
            deletions = self.store.delete(keys, expected)
            return [_as_quarantined(deletion) for deletion in deletions]
        targets = self._places.targets(self._root, keys)
        wanted = expected or [None] * len(keys)
        return [self._set_aside(*file) for file in zip(keys, targets, wanted, strict=True)]

    def _set_aside(self, key: str, target: str | None, expected: Expected | None) -> Deletion:
        if target is None:
            return Deletion(key, Outcome.FAILED, "lies below no location that has a quarantine")
        try:
            return self._move(key, target, expected)
        except LakesweepError as error:
            return Deletion(key, outcome_of(error), error.message)

    def _move(self, key: str, target: str, expected: Expected | None) -> Deletion:
        try:
            self.store.move(key, target, expected)
        except ExistsError:
            return self._go_on(key, target, expected)
        except MissingError:
            there = is_there(self.store, target)
            return Deletion(key, Outcome.QUARANTINED if there else Outcome.ABSENT)
        except ChangedError:
            if is_there(self.store, target):
                return Deletion(key, Outcome.QUARANTINED, _REPLACED)
            return Deletion(key, Outcome.CHANGED, CHANGED)
        return Deletion(key, Outcome.QUARANTINED)

    def _go_on(self, key: str, target: str, expected: Expected | None) -> Deletion:
        """An earlier attempt set the file aside, and perhaps did not come to delete it."""
        if finish_move(self.store, key, target, expected):
            return Deletion(key, Outcome.QUARANTINED)
        try:
            is_listed = is_expected(self.store.head(key), expected)
        except MissingError:
            return Deletion(key, Outcome.QUARANTINED)
        if not is_listed:
            return Deletion(key, Outcome.QUARANTINED, _REPLACED)
        return Deletion(key, Outcome.FAILED, "another file is in its place in quarantine")


def outcome_of(error: LakesweepError) -> Outcome:
    """What an error means for the file that it befell."""
    match error:
        case DeniedError():
            return Outcome.DENIED
        case LockedError():
            return Outcome.LOCKED
        case ThrottledError():
            return Outcome.THROTTLED
        case MissingError():
            return Outcome.ABSENT
        case ChangedError():
            return Outcome.CHANGED
        case _:
            return Outcome.FAILED


def _as_quarantined(deletion: Deletion) -> Deletion:
    if deletion.outcome is Outcome.DELETED:
        return replace(deletion, outcome=Outcome.QUARANTINED)
    return deletion
