"""A store wrapper that quarantines files instead of deleting them, and the folders it uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Self

import msgspec
import numpy as np
import pyarrow as pa

from lakesweep.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    LakesweepError,
    LockedError,
    MissingError,
    ThrottledError,
    UsageError,
)
from lakesweep.storage.address import Address, parse
from lakesweep.storage.deleting.store_groups import group_by_store
from lakesweep.storage.moves import finish_move, object_exists
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ObjectStore,
    Outcome,
    StorageCapabilities,
    is_expected,
)
from lakesweep.storage.wrappers.base import StoreWrapper

#: A rename is as quick as a delete; a copy is several requests, and waits for each.
_RENAMES_AT_ONCE = 250
_PARALLEL_COPIES = 32

_REPLACED = "another file has its key by now"


class QuarantineMethod(StrEnum):
    """How a file is set aside: renamed, copied and deleted, or left below a delete marker."""

    RENAME = "rename"
    COPY = "copy"
    MARKER = "marker"


def quarantine_method(store: ObjectStore) -> QuarantineMethod:
    """The cheapest way in which a store can undo a delete."""
    if store.keeps_versions():
        return QuarantineMethod.MARKER
    return QuarantineMethod.RENAME if store.capabilities.renames else QuarantineMethod.COPY


class QuarantineStore(StoreWrapper):
    """Sets aside what it is told to delete.

    Whatever happens between two steps, a file is at its key, in quarantine, or at both, and the
    same call made again goes on from there.
    """

    def __init__(self, store: ObjectStore, root: Address, places: QuarantineFolders) -> None:
        super().__init__(store)
        self.way = quarantine_method(store)
        self._root = root
        self._places = places

    @property
    def capabilities(self) -> StorageCapabilities:
        found = self.store.capabilities
        match self.way:
            case QuarantineMethod.MARKER:
                return found
            case QuarantineMethod.RENAME:
                return replace(found, delete_batch=min(_RENAMES_AT_ONCE, found.delete_batch))
            case QuarantineMethod.COPY:
                return replace(found, delete_batch=1, parallel_deletes=_PARALLEL_COPIES)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        if self.way is QuarantineMethod.MARKER:
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
            there = object_exists(self.store, target)
            return Deletion(key, Outcome.QUARANTINED if there else Outcome.ABSENT)
        except ChangedError:
            if object_exists(self.store, target):
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


class QuarantineFolder(msgspec.Struct, frozen=True):
    """Files below `location` are set aside below `folder`, each under its whole old key."""

    location: str
    folder: str


class QuarantineFolders(msgspec.Struct, frozen=True):
    """The quarantine of one sweep. It is to be written down before the first file goes there."""

    places: tuple[QuarantineFolder, ...]

    @classmethod
    def of(cls, folders: Iterable[tuple[str, str]]) -> Self:
        """Places from pairs of location and folder; UsageError where files cannot go there."""
        places = tuple(QuarantineFolder(location, folder) for location, folder in folders)
        for place in places:
            _check(place)
        return cls(places)

    def targets(self, root: Address, keys: Iterable[str]) -> list[str | None]:
        """The keys in quarantine of some keys of a store; None for those below no location."""
        prefixes = self._prefixes(root)
        return [_target(key, prefixes) for key in keys]

    def _prefixes(self, root: Address) -> Sequence[tuple[str, str]]:
        """The keys of the locations of a store, the innermost first, with those of the folders."""
        pairs = ((parse(place.location), parse(place.folder)) for place in self.places)
        found = [
            (location.folder, folder.folder)
            for location, folder in pairs
            if location.store_id == root.store_id
        ]
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)


def quarantine_paths(paths: pa.Array, places: QuarantineFolders) -> pa.Array:
    """The addresses that files have in quarantine; null for those below no location."""
    found = np.full(len(paths), None, dtype=object)
    for group in group_by_store(paths)[0]:
        targets = places.targets(group.root, group.keys.to_pylist())
        found[group.rows] = [None if key is None else group.root.base + key for key in targets]
    return pa.array(found, pa.string())


def _check(place: QuarantineFolder) -> None:
    hint = "set quarantine to a folder of the same bucket, or leave it out"
    location, folder = parse(place.location), parse(place.folder)
    if location.store_id != folder.store_id:
        what = f"files of {place.location} cannot be moved to another store, {place.folder}"
        raise UsageError(what, hint=hint)
    if not folder.key.strip("/"):
        raise UsageError(f"a whole store is no place for a quarantine: {place.folder}", hint=hint)


def _target(key: str, prefixes: Sequence[tuple[str, str]]) -> str | None:
    for location, folder in prefixes:
        if key.startswith(location):
            return folder + key
    return None
