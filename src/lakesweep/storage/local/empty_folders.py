"""Find and remove empty local folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.local.folders import FolderDescriptors, LocalFolders


def remove_empty_folders(folders: Iterable[str], root: str) -> list[str]:
    """Remove empty local folders below `root`, then their empty parents; returns the removed ones.

    The system refuses to remove a folder that is not empty, so a folder that receives a file in the
    meantime stays. Other kinds of stores have no folders.
    """
    top = parse(root)
    if top.kind is not StoreKind.FILE:
        return []
    removed: list[str] = []
    # No link is followed below the root: a folder of the same name behind one is not ours.
    with FolderDescriptors("/", LocalFolders(locations=(top.folder,))) as opened:
        # Deepest first, so that parents are empty when their turn comes.
        for folder in sorted(folders, reverse=True):
            address = parse(folder)
            if address.kind is StoreKind.FILE and address.key.startswith(top.folder):
                removed += _remove_upwards(opened, address.folder, top.folder)
    return removed


def find_empty_folders(
    root: str, levels: Sequence[re.Pattern[str]], cut: datetime
) -> Iterator[str]:
    """Empty local folders that have not changed since `cut`, each ending in `/`.

    Folder names must match the patterns: the first pattern directly below the root, the next one
    level deeper, and so on. Links are not followed.
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
    # A folder that is unreadable or gone contains no folders to remove.
    with suppress(OSError), os.scandir(folder) as entries:
        found = (each for each in entries if pattern.fullmatch(each.name))
        return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
    return []


def _is_old_and_empty(folder: str, cut: float) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is None and os.stat(folder).st_mtime < cut
    return False


def _remove_upwards(opened: FolderDescriptors, folder: str, top: str) -> Iterable[str]:
    while folder != top and _is_removed(opened, folder[:-1]):
        yield "/" + folder
        folder = folder[: folder.rfind("/", 0, -1) + 1]


def _is_removed(opened: FolderDescriptors, key: str) -> bool:
    try:
        parent, name = opened.of(key)
        os.rmdir(name, dir_fd=parent)
    except OSError:  # not empty, gone or not permitted: nothing to do in any case
        return False
    return True
