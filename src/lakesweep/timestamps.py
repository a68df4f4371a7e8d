"""Datetimes as integer microseconds since 1970, as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The time of a stored value."""
    return _EPOCH + microseconds * _MICROSECOND
