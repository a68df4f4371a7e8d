"""Translate errors of the operating system into our errors."""

from __future__ import annotations

import errno
import os

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    MissingError,
    StorageError,
    UnavailableError,
)
from lakesweep.storage.local.folders import LinkedFolderError

# A path through a file, or through a loop of links, names nothing either.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_TRANSIENT = frozenset(
    {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN}
)


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
