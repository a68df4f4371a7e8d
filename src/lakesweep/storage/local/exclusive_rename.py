"""Rename a file atomically, failing if the target exists."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

_AT_FDCWD = -100
_NO_REPLACE = 1
#: The kernel or the file system does not support such a rename; it does not support links.
_NO_RENAME = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def rename_new(source: str, target: str) -> None:
    """Rename a file; FileExistsError if the target exists.

    If the file system has no such rename, it is done by a second hard link, and a crash may leave
    both names. Repeating the call then completes it. EOPNOTSUPP if there are no links either.
    """
    code = _renameat2(source, target)
    if code in _NO_RENAME:
        # Link first, unlink second: a crash in between leaves the file under both names, never
        # none.
        _link(source, target)
        os.unlink(source)
    elif code:
        raise OSError(code, os.strerror(code), source, None, target)


def _renameat2(source: str, target: str) -> int:
    call = _system_call()
    if call is None:
        return errno.ENOSYS
    from_name, to_name = os.fsencode(source), os.fsencode(target)
    if call(_AT_FDCWD, from_name, _AT_FDCWD, to_name, _NO_REPLACE) == 0:
        return 0
    return ctypes.get_errno()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        # Both names of one file: an earlier attempt stopped between the link and the unlink.
        if not os.path.samestat(os.lstat(source), os.lstat(target)):
            raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise OSError(errno.EOPNOTSUPP, os.strerror(error.errno)) from error
        raise


@cache
def _system_call() -> Any:
    """The system call, which Python does not expose; None if the C library lacks it."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        name = ctypes.c_char_p
        call.argtypes = (ctypes.c_int, name, ctypes.c_int, name, ctypes.c_uint)
    return call
