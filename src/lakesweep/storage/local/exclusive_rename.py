"""Rename a file atomically, failing if the target exists."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

_NO_REPLACE = 1
#: The kernel or the file system does not support such a rename; it does not support links.
_NO_RENAME = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def rename_new(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Rename a file in an open folder; FileExistsError if the new name exists.

    If the file system has no such rename, it is done by a second hard link, and a crash may leave
    both names. Repeating the call then completes it. EOPNOTSUPP if there are no links either.
    """
    code = _renameat2(folder, name, new_folder, new_name)
    if code in _NO_RENAME:
        # Link first, unlink second: a crash in between leaves the file under both names, never
        # none.
        _link(folder, name, new_folder, new_name)
        os.unlink(name, dir_fd=folder)
    elif code:
        raise OSError(code, os.strerror(code), name, None, new_name)


def _renameat2(folder: int, name: str, new_folder: int, new_name: str) -> int:
    call = _system_call()
    if call is None:
        return errno.ENOSYS
    if call(folder, os.fsencode(name), new_folder, os.fsencode(new_name), _NO_REPLACE) == 0:
        return 0
    return ctypes.get_errno()


def _link(folder: int, name: str, new_folder: int, new_name: str) -> None:
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
    except FileExistsError:
        # Both names of one file: an earlier attempt stopped between the link and the unlink.
        if not os.path.samestat(_status(folder, name), _status(new_folder, new_name)):
            raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise OSError(errno.EOPNOTSUPP, os.strerror(error.errno)) from error
        raise


def _status(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


@cache
def _system_call() -> Any:
    """The system call, which Python does not expose; None if the C library lacks it."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        name = ctypes.c_char_p
        call.argtypes = (ctypes.c_int, name, ctypes.c_int, name, ctypes.c_uint)
    return call
