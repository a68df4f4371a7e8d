"""What callers may pass: durations and times as text or objects, and consent to deletes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError, UsageError
from lakesweep.units import parse_duration, parse_moment

#: A duration as an object or as text: `90s`, `15m`, `6h`, `7d`.
DurationLike: TypeAlias = timedelta | str
#: A point in time as an object with a zone, as RFC 3339 text, or as a duration ago.
MomentLike: TypeAlias = datetime | timedelta | str


def to_duration(value: DurationLike | None) -> timedelta | None:
    """A duration; None stays None."""
    return parse_duration(value) if isinstance(value, str) else value


def to_moment(value: MomentLike | None, clock: Clock) -> datetime | None:
    """A point in time, never in the future; None stays None."""
    now = clock.now()
    if isinstance(value, str):
        return parse_moment(value, now)
    if isinstance(value, timedelta):
        value = now - value
    if value is not None and (value.tzinfo is None or value > now):
        raise UsageError(f"{value} has no zone or is in the future", hint="use an aware UTC time")
    return value


def consent(confirm: Callable[[Any], None] | None, *, yes: bool) -> Callable[[Any], None]:
    """Turn `yes` and `confirm` into what an operation asks before it deletes.

    Without either, nothing is deleted: a call in a notebook must not delete by accident.
    """
    if confirm is not None:
        return confirm
    return _agree if yes else _refuse


def _agree(preview: object) -> None:
    """The caller has agreed beforehand."""
    del preview


def _refuse(preview: object) -> None:
    raise RefusedError(
        "confirmation",
        f"not confirmed; nothing was deleted: {preview}",
        hint="pass yes=True, or confirm=a function that looks at the preview",
    )
