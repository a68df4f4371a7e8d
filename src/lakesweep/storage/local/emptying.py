"""Removing folders that hold nothing any more."""

from __future__ import annotations

import os
from collections.abc import Iterable

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
