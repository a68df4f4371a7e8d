"""Translate errors of obstore into our errors and delete outcomes."""

from __future__ import annotations

import re

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from lakesweep.errors import (
    DeniedError,
    ExistsError,
    InexactKeyError,
    LakesweepError,
    LockedError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.object_store import Deletion, Outcome

#: Everything that obstore raises; a missing object is Python's FileNotFoundError.
CLIENT_ERRORS = (BaseError, OSError, NotImplementedError)

_STATUS = re.compile(r"status code: (\d{3})")
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S+")
_PATH = re.compile(r'Path "(.*?)"(?: contained|: Encountered)', re.DOTALL)
_HELD = re.compile(r"retention|legal.?hold|temporary.?hold|lease|immutab", re.IGNORECASE)
_CONNECTION = re.compile(r"HTTP error|timed? ?out|connection", re.IGNORECASE)


def translated(base: str, key: str, error: Exception) -> LakesweepError:
    """Our equivalent of the error, for one key or for the folder of a listing."""
    address, reason = base + key, reason_of(error)
    match error:
        case FileNotFoundError():
            return MissingError(address)
        case AlreadyExistsError():
            return ExistsError(address, "already exists")
        case InvalidPathError():
            return _inexact(base, key, reason)
        case NotSupportedError() | NotImplementedError():
            return UnsupportedError(address, reason)
        case _ if _HELD.search(reason):
            return LockedError(address, reason)
        case PermissionDeniedError() | UnauthenticatedError():
            return DeniedError(address, reason)
        case _:
            return _by_status(address, reason)


def failed_deletion(base: str, key: str, error: Exception) -> Deletion:
    """The outcome of a delete that raised."""
    ours = translated(base, key, error)
    reason = reason_of(error)
    match ours:
        case MissingError():
            return Deletion(key, Outcome.ABSENT)
        case LockedError():
            return Deletion(key, Outcome.LOCKED, reason)
        case DeniedError():
            return Deletion(key, Outcome.DENIED, reason)
        case ThrottledError():
            return Deletion(key, Outcome.THROTTLED, reason, may_retry=True)
        case _:
            return Deletion(
                key, Outcome.FAILED, reason, may_retry=isinstance(ours, UnavailableError)
            )


def reason_of(error: Exception) -> str:
    """The first line of the client's message, without URL queries: they may contain signatures."""
    return _QUERY.sub(r"\1", str(error).split("\n\nDebug source", 1)[0].strip())


def _inexact(base: str, key: str, reason: str) -> InexactKeyError:
    named = _PATH.search(reason)
    address = base + named[1] if named else base + key
    return InexactKeyError(address, "the client of this store cannot represent this key exactly")


def _by_status(address: str, reason: str) -> LakesweepError:
    found = _STATUS.search(reason)
    match int(found[1]) if found else None:
        case 401 | 403:
            return DeniedError(address, reason)
        case 404:
            return MissingError(address)
        case 429 | 503:
            return ThrottledError(address, reason)
        case 408 | 500 | 502 | 504:
            return UnavailableError(address, reason)
        case None if _CONNECTION.search(reason):
            return UnavailableError(address, reason)
        case _:
            return StorageError(address, reason)
