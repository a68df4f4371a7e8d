"""Parse and format what people write: durations, sizes, points in time, local paths."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakesweep.errors import UsageError
from lakesweep.guard_names import NAMED_TABLE

_DURATION = re.compile(r"(\d+)([smhd])")
#: A longer one cannot be subtracted from a date.
_LONGEST_SECONDS = 365_000 * 86400
_MOST_DIGITS = 20
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_BYTES: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)},
}


def parse_duration(text: str) -> timedelta:
    """A duration such as `90s`, `15m`, `6h` or `7d`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a duration", hint="write 90s, 15m, 6h or 7d")
    number = found[1].lstrip("0") or "0"
    # By its digits first: Python refuses to convert thousands of them.
    if len(number) <= _MOST_DIGITS and int(number) * _SECONDS[found[2]] <= _LONGEST_SECONDS:
        return timedelta(seconds=int(number) * _SECONDS[found[2]])
    raise UsageError(f"{text[:40]!r} is longer than 1,000 years", hint="write 7d")


def format_duration(duration: timedelta) -> str:
    """The shortest exact spelling that `parse_duration` accepts; whole seconds only."""
    seconds = int(duration.total_seconds())
    units = "dhms" if seconds else "s"
    unit = next(unit for unit in units if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def parse_moment(text: str, now: datetime) -> datetime:
    """A point in time: an RFC 3339 time with a zone, or a duration ago; never in the future."""
    if _DURATION.fullmatch(text):
        return now - parse_duration(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a point in time",
            hint="write a duration ago such as 7d, or a time such as 2026-01-31T00:00:00Z",
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"{text!r} has no time zone", hint="add Z for UTC, or an offset")
    if moment > now:
        raise UsageError(f"{text!r} is in the future", hint="use a time in the past")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{text!r} is too early", hint="use a time after the year 1") from None


def parse_size(text: str) -> int:
    """A number of bytes, plain or with a unit such as `kB`, `MB` (1000s), `KiB`, `MiB` (1024s)."""
    found = _SIZE.fullmatch(text.strip())
    factor = _BYTES.get(found[2].lower()) if found else None
    if found is None or factor is None or len(found[1]) > _MOST_DIGITS:
        raise UsageError(f"{text[:40]!r} is not a size", hint="write bytes, or 10MB, 64MiB, 1.5GB")
    whole, _, fraction = found[1].partition(".")
    # In integers: 0.1 is exact for every unit, unlike with floats.
    return int(whole) * factor + int(fraction or "0") * factor // int(10 ** len(fraction))


def format_size(size_bytes: int) -> str:
    """Bytes in readable form, in powers of 1000: `999 B`, `1.5 kB`, `12 GB`."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    power = 1
    while size_bytes >= 999.5 * 1000**power and power < len(_UNITS):
        power += 1
    value = size_bytes / 1000**power
    digits = 1 if value < 9.95 else 0
    return f"{value:.{digits}f} {_UNITS[power - 1]}"


def format_count(count: int, noun: str) -> str:
    """A number of things: `1 file`, `1,200 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_some(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_moment(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`; fractions of a second only if there are any."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def absolute_address(uri: str) -> str:
    """An address; a relative path is one of the current folder, as in any other command.

    `..` leads to the folder that it does for the system, also behind a link. No text is no address,
    rather than the current folder: it may come from a variable that is not set.
    """
    is_path = uri.startswith(("/", "./", "../"))
    if not uri or (":" in uri and not is_path):
        return uri
    parts = uri.split("/")
    if uri.startswith("/") and not {".", ".."}.intersection(parts):
        return uri
    path = Path(uri).absolute()
    if ".." in path.parts:
        ups = len(path.parts) - path.parts[::-1].index("..")
        path = Path(os.path.realpath(Path(*path.parts[:ups])), *path.parts[ups:])
    return f"{path}/" if uri.endswith("/") and path.name else str(path)


def absolute_override(override: str) -> str:
    """An override; if it names a table, with the absolute address of that table."""
    if not override.startswith(NAMED_TABLE):
        return override
    return NAMED_TABLE + absolute_address(override.removeprefix(NAMED_TABLE))
