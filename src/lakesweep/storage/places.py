"""Where files lie while they are in quarantine: in the same store, under a folder and their key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import msgspec
import numpy as np
import pyarrow as pa

from lakesweep.errors import UsageError
from lakesweep.storage.address import Address, parse
from lakesweep.storage.grouping import group_by_store


class Place(msgspec.Struct, frozen=True):
    """Files below `location` are set aside below `folder`, each under its whole old key."""

    location: str
    folder: str


class Places(msgspec.Struct, frozen=True):
    """The quarantine of one sweep. It is to be written down before the first file goes there."""

    places: tuple[Place, ...]

    @classmethod
    def of(cls, folders: Iterable[tuple[str, str]]) -> Self:
        """Places from pairs of location and folder; UsageError where files cannot go there."""
        places = tuple(Place(location, folder) for location, folder in folders)
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


def quarantine_paths(paths: pa.Array, places: Places) -> pa.Array:
    """The addresses that files have in quarantine; null for those below no location."""
    found = np.full(len(paths), None, dtype=object)
    for group in group_by_store(paths)[0]:
        targets = places.targets(group.root, group.keys.to_pylist())
        found[group.rows] = [None if key is None else group.root.base + key for key in targets]
    return pa.array(found, pa.string())


def _check(place: Place) -> None:
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
