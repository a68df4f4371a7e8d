"""Folders for files that a program writes and later executes: no one else may write there."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_home() -> Path:
    """Where programs of this user cache what can be recreated."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakesweep"


def make_private(folder: Path) -> bool:
    """Create a folder if necessary; returns whether we can write to it and no one else can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # lstat: a link planted by another user must not count as our folder.
        found = folder.lstat()
    except OSError:
        return False
    is_private = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and is_private and is_writable(folder)


def is_writable(folder: Path) -> bool:
    """Whether this process can create files in a folder."""
    return folder.is_dir() and os.access(folder, os.W_OK)
