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
    LeaseHeldError,
    LockedError,
    MissingError,
    StoppedError,
    ThrottledError,
    UsageError,
)
from lakesweep.storage.address import Address, parse
from lakesweep.storage.deleting.store_groups import group_by_store
from lakesweep.storage.deleting.unchanged import delete_unchanged
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

#: Renames are as quick as deletes; a copy takes several requests, one after another.
_RENAME_BATCH = 250
_PARALLEL_COPIES = 32

_REPLACED = "another file now has its key"


class QuarantineMethod(StrEnum):
    """How a file is quarantined: renamed, copied and deleted, or left below a delete marker."""

    RENAME = "rename"
    COPY = "copy"
    MARKER = "marker"


def quarantine_method(store: ObjectStore) -> QuarantineMethod:
    """The cheapest method by which a store can undo a delete."""
    if store.keeps_versions():
        return QuarantineMethod.MARKER
    return QuarantineMethod.RENAME if store.capabilities.renames else QuarantineMethod.COPY


class QuarantineStore(StoreWrapper):
    """Quarantines files instead of deleting them.

    After a crash at any point, a file is at its key, in quarantine, or at both, and repeating the
    call completes the step.
    """

    def __init__(self, store: ObjectStore, root: Address, folders: QuarantineFolders) -> None:
        super().__init__(store)
        self.method = quarantine_method(store)
        self._root = root
        self._folders = folders

    @property
    def capabilities(self) -> StorageCapabilities:
        # It compares by itself, below: a file that is gone may be one that is in quarantine.
        found = replace(self.store.capabilities, detects_rewrites=True)
        match self.method:
            case QuarantineMethod.MARKER:
                return found
            case QuarantineMethod.RENAME:
                return replace(found, delete_batch=min(_RENAME_BATCH, found.delete_batch))
            case QuarantineMethod.COPY:
                return replace(found, delete_batch=1, parallel_deletes=_PARALLEL_COPIES)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        if self.method is QuarantineMethod.MARKER:
            # In a versioned bucket the delete itself keeps the version, so nothing needs to be
            # copied.
            deletions = delete_unchanged(self.store, keys, expected)
            return [_as_quarantined(deletion) for deletion in deletions]
        targets = self._folders.targets(self._root, keys)
        wanted = expected or [None] * len(keys)
        return [self._quarantine(*file) for file in zip(keys, targets, wanted, strict=True)]

    def _quarantine(self, key: str, target: str | None, expected: Expected | None) -> Deletion:
        if target is None:
            return Deletion(key, Outcome.FAILED, "is not below a location that has a quarantine")
        try:
            return self._move(key, target, expected)
        except LakesweepError as error:
            return Deletion(key, outcome_of(error), error.message)

    def _move(self, key: str, target: str, expected: Expected | None) -> Deletion:
        try:
            self.store.move(key, target, expected)
        except ExistsError:
            return self._resume(key, target, expected)
        except MissingError:
            # An earlier attempt may have moved it completely.
            there = object_exists(self.store, target)
            return Deletion(key, Outcome.QUARANTINED if there else Outcome.ABSENT)
        except ChangedError:
            if object_exists(self.store, target):
                return Deletion(key, Outcome.QUARANTINED, _REPLACED)
            return Deletion(key, Outcome.CHANGED, CHANGED)
        return Deletion(key, Outcome.QUARANTINED)

    def _resume(self, key: str, target: str, expected: Expected | None) -> Deletion:
        """Complete an earlier attempt, which may have copied the file without deleting it."""
        if finish_move(self.store, key, target, expected):
            return Deletion(key, Outcome.QUARANTINED)
        try:
            is_listed = is_expected(self.store.head(key), expected)
        except MissingError:
            return Deletion(key, Outcome.QUARANTINED)
        # The copy is what was planned; the file at the key is newer, and must stay.
        if not is_listed:
            return Deletion(key, Outcome.QUARANTINED, _REPLACED)
        return Deletion(key, Outcome.FAILED, "another file is at its place in quarantine")


def outcome_of(error: LakesweepError) -> Outcome:
    """The outcome for the file that an error is about."""
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
        case LeaseHeldError() | StoppedError():
            return Outcome.UNSENT
        case _:
            return Outcome.FAILED


def _as_quarantined(deletion: Deletion) -> Deletion:
    """A file that is gone is below a marker already: an earlier attempt put it there."""
    if deletion.outcome in (Outcome.DELETED, Outcome.ABSENT):
        return replace(deletion, outcome=Outcome.QUARANTINED)
    return deletion


class QuarantineFolder(msgspec.Struct, frozen=True):
    """Files below `location` move to `folder`, each keeping its whole old key."""

    location: str
    folder: str


class QuarantineFolders(msgspec.Struct, frozen=True):
    """The quarantine folders of one sweep. Record them before the first file is moved."""

    places: tuple[QuarantineFolder, ...]

    @classmethod
    def of(cls, folders: Iterable[tuple[str, str]]) -> Self:
        """From pairs of location and folder; UsageError if files cannot be moved there."""
        places = tuple(QuarantineFolder(location, folder) for location, folder in folders)
        for place in places:
            _check(place)
        return cls(places)

    def targets(self, root: Address, keys: Iterable[str]) -> list[str | None]:
        """The keys in quarantine for some keys of a store; None if below no location."""
        prefixes = self._prefixes(root)
        return [_target(key, prefixes) for key in keys]

    def _prefixes(self, root: Address) -> Sequence[tuple[str, str]]:
        """The key prefixes of the locations of a store, innermost first, and of their folders."""
        pairs = ((parse(place.location), parse(place.folder)) for place in self.places)
        found = [
            (location.folder, folder.folder)
            for location, folder in pairs
            if location.store_id == root.store_id
        ]
        # Innermost first: a nested location has its own quarantine.
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)


def quarantine_paths(paths: pa.Array, folders: QuarantineFolders) -> pa.Array:
    """The addresses that files get in quarantine; null if below no location."""
    found = np.full(len(paths), None, dtype=object)
    for group in group_by_store(paths)[0]:
        targets = folders.targets(group.root, group.keys.to_pylist())
        found[group.rows] = [None if key is None else group.root.base + key for key in targets]
    return pa.array(found, pa.string())


def _check(place: QuarantineFolder) -> None:
    hint = "set quarantine to a folder of the same bucket, or leave it out"
    location, folder = parse(place.location), parse(place.folder)
    if location.store_id != folder.store_id:
        what = f"files in {place.location} cannot be quarantined in another store, {place.folder}"
        raise UsageError(what, hint=hint)
    if not folder.key.strip("/"):
        raise UsageError(f"a quarantine folder cannot be a whole store: {place.folder}", hint=hint)


def _target(key: str, prefixes: Sequence[tuple[str, str]]) -> str | None:
    for location, folder in prefixes:
        if key.startswith(location):
            return folder + key
    return None
