"""What an object was when it was listed, to be compared before anything is done to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from lakesweep.errors import ChangedError

if TYPE_CHECKING:
    from lakesweep.storage.store import ObjectInfo

#: Why an object was left alone.
CHANGED = "is no longer what was listed"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Expected(NamedTuple):
    """An object as it was listed; None where the listing did not say.

    `modified_micros` are microseconds since 1970.
    """

    size_bytes: int | None = None
    modified_micros: int | None = None
    etag: str | None = None


def is_expected(info: ObjectInfo, expected: Expected | None) -> bool:
    """Whether an object is still what was listed, as far as both are known.

    Etags say more than times, of which stores give whole seconds here and fractions there.
    """
    if expected is None:
        return True
    if expected.size_bytes not in (None, info.size_bytes):
        return False
    if expected.etag is not None and info.etag is not None:
        return expected.etag == info.etag
    if expected.modified_micros is None or info.modified is None:
        return True
    return expected.modified_micros == micros_of(info.modified)


def check_is_expected(path: str, info: ObjectInfo, expected: Expected | None) -> None:
    """ChangedError unless an object is still what was listed."""
    if not is_expected(info, expected):
        raise ChangedError(path, CHANGED)


def expected_of(info: ObjectInfo) -> Expected:
    """An object as it was when the store was asked."""
    micros = None if info.modified is None else micros_of(info.modified)
    return Expected(info.size_bytes, micros, info.etag)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND
