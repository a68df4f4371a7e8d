"""Open local folders name by name, so that no link below a location leads out of it.

Errors of the operating system become our errors here.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    MissingError,
    StorageError,
    UnavailableError,
)

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
#: Folders whose names say that they are ours.
_OWN_FOLDER = re.compile(r"(?:^|/)[._]lakesweep/")
_MOST_OPEN = 256
# A path through a file, or through a loop of links, names nothing either.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_TRANSIENT = frozenset(
    {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN}
)


class LinkedFolderError(OSError):
    """A folder below a location is a symbolic link: nothing is changed behind it."""

    def __init__(self, folder: str) -> None:
        super().__init__(errno.ELOOP, f"{folder} is a symbolic link; nothing behind it is changed")


@dataclass(frozen=True, slots=True)
class LocalFolders:
    """What is known about folders of the file system, given by keys that are empty or end in `/`.

    `locations` are the folders that a user named. The system resolves them, links included; below
    them no link is followed. Files in `private` folders are for their owner alone.
    """

    locations: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def location_of(self, folder: str) -> str | None:
        """The innermost location that contains a folder, if any."""
        around = (each for each in self.locations if folder.startswith(each))
        return max(around, key=len, default=None)

    def is_private(self, key: str) -> bool:
        """Whether a file or folder is one of Lakesweep's own."""
        return _OWN_FOLDER.search(key) is not None or key.startswith(self.private)

    def adding(self, locations: Iterable[str], private: Iterable[str] = ()) -> Self:
        """The same, with more locations and private folders."""
        return type(self)(
            tuple(dict.fromkeys((*self.locations, *locations))),
            tuple(dict.fromkeys((*self.private, *private))),
        )


class FolderDescriptors:
    """Descriptors of folders below `root`, for a few calls by one thread.

    Each folder is opened relative to its parent and never through a link, from its location on.
    So whatever is renamed or replaced meanwhile, a descriptor stands for a folder inside the
    location. A folder in no location is opened from `root`; with `follow`, the system resolves it.
    """

    def __init__(self, root: str, known: LocalFolders, *, follow: bool = False) -> None:
        self._root = root
        self._known = known
        self._follow = follow
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close all descriptors."""
        while self._open:
            os.close(self._open.popitem()[1])

    def of(self, key: str, *, create: bool = False) -> tuple[int, str]:
        """The descriptor of the folder of a key, and the key's name in it.

        The descriptor is valid until the next call.
        """
        end = key.rfind("/") + 1
        descriptor = self._open.get(key[:end])
        return self._find(key[:end], create=create) if descriptor is None else descriptor, key[end:]

    def open(self, folder: str, flags: int) -> int:
        """A descriptor of its own, which the caller closes."""
        if folder == self._top(folder):
            return os.open(self._root + folder, _FOLDER | flags)
        parent, name = self.of(folder[:-1])
        return _open_real(parent, name, self._root + folder, flags)

    def _find(self, folder: str, *, create: bool) -> int:
        parent = self._open.get(_parent(folder))
        if parent is not None and folder not in self._known.locations:
            # Most folders lie beside the one before.
            return self._keep(folder, self._open_child(parent, folder, create=create))
        top = self._top(folder)
        descriptor, missing = self._nearest(folder, top)
        if descriptor is None:
            descriptor = self._keep(top, self._open_top(top, create=create))
        for each in reversed(missing):
            descriptor = self._keep(each, self._open_child(descriptor, each, create=create))
        return descriptor

    def _top(self, folder: str) -> str:
        found = self._known.location_of(folder)
        if found is None:
            return folder if self._follow else ""
        return found

    def _nearest(self, folder: str, top: str) -> tuple[int | None, list[str]]:
        """The open folder closest to a folder, and the folders between them, deepest first."""
        missing: list[str] = []
        while (descriptor := self._open.get(folder)) is None and folder != top:
            missing.append(folder)
            folder = _parent(folder)
        return descriptor, missing

    def _open_top(self, top: str, *, create: bool) -> int:
        if create:
            self._create_top(top)
        return os.open(self._root + top, _FOLDER | os.O_PATH)

    def _create_top(self, top: str) -> None:
        missing: list[str] = []
        while top and not os.path.isdir(self._root + top):
            missing.append(top)
            top = _parent(top)
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another writer was faster
                os.mkdir(self._root + folder, self._mode(folder))

    def _open_child(self, parent: int, folder: str, *, create: bool) -> int:
        name = folder[len(_parent(folder)) : -1]
        try:
            return _open_real(parent, name, self._root + folder)
        except FileNotFoundError:
            if not create:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, self._mode(folder), dir_fd=parent)
        return _open_real(parent, name, self._root + folder)

    def _mode(self, folder: str) -> int:
        return 0o700 if self._known.is_private(folder) else 0o777

    def _keep(self, folder: str, descriptor: int) -> int:
        self._open[folder] = descriptor
        if len(self._open) > _MOST_OPEN:
            # The oldest is never the one that was just opened. A parent may be opened again.
            os.close(self._open.pop(next(iter(self._open))))
        return descriptor


def _parent(folder: str) -> str:
    return folder[: folder.rfind("/", 0, -1) + 1]


def _open_real(parent: int, name: str, path: str, flags: int = os.O_PATH) -> int:
    """Open a folder in a folder, unless it is a link.

    By default the descriptor only stands for the folder, which needs no right to read it.
    """
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW | flags, dir_fd=parent)
    except NotADirectoryError:
        # The system's answer for a link and for a file alike; only a link is suspicious.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise LinkedFolderError(path.rstrip("/")) from None
        raise


def is_absent(error: OSError) -> bool:
    # A folder that was replaced by a link hides its files; it does not prove that they are gone.
    return error.errno in _ABSENT and not isinstance(error, LinkedFolderError)


def is_denied(error: OSError) -> bool:
    return error.errno in _DENIED


def reason_of(error: OSError) -> str:
    """The system's message, without the path."""
    if isinstance(error, LinkedFolderError):
        return str(error.strerror)
    return os.strerror(error.errno) if error.errno else str(error)


def translated(address: str, error: OSError) -> LakesweepError:
    """Our equivalent of the error, for `address`."""
    if is_absent(error):
        return MissingError(address)
    if is_denied(error):
        return DeniedError(address, reason_of(error), hint="check the permissions of the folder")
    if error.errno in _TRANSIENT:
        return UnavailableError(address, reason_of(error))
    if isinstance(error, LinkedFolderError):
        hint = "name the linked folder itself as a location, or replace the link by a folder"
        return StorageError(address, reason_of(error), hint=hint)
    return StorageError(address, reason_of(error))
