"""Object types of other installed packages.

A package offers the types that it keeps in a store as an entry point of the group
`lakesweep.types`: a mapping from type names, as rows hold them, to structs. The command line
opens stores with all of them, so their objects can be read, and maintenance deletes those that
nothing retains. Types that no installed package offers are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

import msgspec

from lakesweep.errors import ConfigError
from lakesweep.store.objects.object_types import ObjectTypes

GROUP = "lakesweep.types"

StructTypes = Mapping[str, type[msgspec.Struct]]


def with_offered_types(own: StructTypes, found: Iterable[EntryPoint] | None = None) -> StructTypes:
    """Our own types and those of other packages; ConfigError if they cannot be used together.

    Never without one of them: a program that knows fewer types than it should deletes nothing of
    theirs, but a package may rely on its objects being maintained.
    """
    types = dict(own)
    for entry in entry_points(group=GROUP) if found is None else found:
        offered = _load(entry)
        for name in sorted(types.keys() & offered.keys()):
            raise _unusable(entry.name, f"there is another type {name}")
        types.update(offered)
        try:
            ObjectTypes(types)
        except (TypeError, ValueError) as error:
            raise _unusable(entry.name, str(error)) from error
    return types


def _load(entry: EntryPoint) -> StructTypes:
    try:
        offered = entry.load()
    except Exception as error:
        raise _unusable(entry.name, str(error)) from error
    if not isinstance(offered, Mapping):
        raise _unusable(entry.name, f"it is a {type(offered).__name__}, not a mapping")
    return offered


def _unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the types of {name} cannot be used: {reason}",
        hint="fix or uninstall the package that offers them",
    )
