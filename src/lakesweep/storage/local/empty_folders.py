"""Find and remove empty local folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from lakesweep.storage.address import StoreKind, parse


def remove_empty_folders(folders: Iterable[str], root: str) -> list[str]:
    """Remove local folders below `root` that are empty, and then their parents; gives what went.

    The system removes no folder that holds something, so one that gets a file meanwhile stays.
    Stores of other kinds have no folders.
    """
    top = parse(root)
    if top.kind is not StoreKind.FILE:
        return []
    removed: list[str] = []
    for folder in sorted(folders, reverse=True):
        address = parse(folder)
        if address.kind is StoreKind.FILE and address.key.startswith(top.folder):
            removed += _remove_upwards("/" + address.folder, "/" + top.folder)
    return removed


def find_empty_folders(
    root: str, levels: Sequence[re.Pattern[str]], cut: datetime
) -> Iterator[str]:
    """Local folders that are empty and have not changed since `cut`, with a `/` at their ends.

    Folders are looked for whose names fit the patterns: the first one directly below the root, the
    next one level deeper, and so on. Links are not followed.
    """
    top = parse(root)
    if top.kind is StoreKind.FILE:
        yield from _find_empty("/" + top.folder, levels, cut.timestamp())


def _find_empty(folder: str, levels: Sequence[re.Pattern[str]], cut: float) -> Iterator[str]:
    for name in _folders_in(folder, levels[0]):
        path = f"{folder}{name}/"
        if _is_old_and_empty(path, cut):
            yield path
        elif len(levels) > 1:
            yield from _find_empty(path, levels[1:], cut)


def _folders_in(folder: str, pattern: re.Pattern[str]) -> list[str]:
    # What cannot be looked into, or has gone, holds no folder that could be removed.
    with suppress(OSError), os.scandir(folder) as entries:
        found = (each for each in entries if pattern.fullmatch(each.name))
        return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
    return []


def _is_old_and_empty(folder: str, cut: float) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is None and os.stat(folder).st_mtime < cut
    return False


def _remove_upwards(folder: str, top: str) -> Iterable[str]:
    while folder != top and _is_removed(folder):
        yield folder
        folder = os.path.dirname(folder.rstrip("/")) + "/"


def _is_removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except OSError:  # not empty, already gone, or not ours to remove: all the same, it stays
        return False
    return True
