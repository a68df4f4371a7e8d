"""What a path means that a user typed for a file of a lake."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lakesweep.storage.address import parse
from lakesweep.sweep.paths.folder_map import claimed_folder
from lakesweep.units import absolute_address

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_HERE = ("./", "../")


def lake_path(locations: Sequence[str], path: str, is_there: Callable[[str], bool]) -> str:
    """The address that a path means: the first of its meanings that is there.

    An address stands for itself. Other paths are relative to the current folder, as in any command,
    to a location of the lake, or are keys of its bucket. If none is there, the likeliest one.
    """
    found = _meanings(locations, path)
    if len(found) == 1:
        return found[0]
    below = [each for each in found if _is_below(locations, each)] or found
    return next(filter(is_there, below), below[0])


def _meanings(locations: Sequence[str], path: str) -> list[str]:
    here = absolute_address(path)
    if _SCHEME.match(path) or path.startswith(_HERE):
        return [here]
    key = path.removeprefix("/")
    inside = [f"{location.rstrip('/')}/{key}" for location in locations]
    return list(
        dict.fromkeys([here, *inside, *(parse(each).child(key).path for each in locations)])
    )


def _is_below(locations: Sequence[str], address: str) -> bool:
    folder = claimed_folder(address.rpartition("/")[0])
    return any(folder.startswith(claimed_folder(location)) for location in locations)
