"""Files and folders that no other user may write to, or even read, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
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


def create_private(file: Path) -> None:
    """Create an empty file, and missing folders above it, for this user only."""
    for folder in [*_missing(file.parent)][::-1]:
        folder.mkdir(mode=0o700, exist_ok=True)
    os.close(open_private(file, os.O_CREAT | os.O_RDWR))


def open_private(file: Path, flags: int) -> int:
    """A descriptor of a file; if it is new, only this user can use it."""
    # With the mode, not changed afterwards: others have no access even for a moment.
    return os.open(file, flags, 0o600)


def close_to_others(path: Path) -> bool:
    """Take all rights on a file or folder of ours from others; whether they had any."""
    try:
        found = path.stat()
        if found.st_uid != os.geteuid() or not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & stat.S_IRWXU)
    except OSError:
        return False  # it does not exist, or its file system has no rights
    return True


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent


def is_writable(folder: Path) -> bool:
    """Whether this process can create files in a folder."""
    return folder.is_dir() and os.access(folder, os.W_OK)
