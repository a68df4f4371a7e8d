"""Parse times by the patterns of Java's DateTimeFormatter.

A pattern becomes a regular expression. As in Java, a number takes all the digits it can and
leaves to adjacent fixed-width numbers what they need. Days past the end of a month become its
last day, missing parts of a time are zero, and without an hour the time is midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import groupby

from lakesweep.errors import UsageError

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_HALVES = ("AM", "PM")
_FIRST_YEAR_OF_TWO_DIGITS = 2000
_MOST_DIGITS = 19

#: Letters of numbers that are one or two digits long.
_SHORT_NUMBERS = frozenset("MLdHhKkms")
#: Letters that Java has but partitions do not need: weeks, quarters, eras, zones.
_FOREIGN = frozenset("GYQqwWFEecBgnNAVvzOXxZp")


#: Optional parts. As in Java, a part that matched is never given up again.
_BRACKETS = {"[": "(?:", "]": ")?+"}
_NESTING = {"[": 1, "]": -1}


class PatternError(UsageError):
    """The pattern is invalid, or contains something that is not supported."""

    usual_hint = "write a pattern such as yyyy-MM-dd or yyyyMMdd HH"


class UnparsableError(ValueError):
    """The text is not a time."""


@dataclass(frozen=True, slots=True)
class _Number:
    """The number of a field, `least` to `most` digits; no field may be negative here.

    A fixed one can directly follow another number.
    """

    name: str
    least: int
    most: int
    is_fixed: bool = False

    def regex(self, *, greedy: bool) -> str:
        """Not greedy: the fields that follow take their digits first."""
        width = f"{{{self.least},{self.most}}}" + ("+" if greedy else "")
        return f"[0-9]{width}"


@dataclass(slots=True)
class _Writer:
    """A regular expression under construction; numbers wait for adjacent ones that follow."""

    parts: list[str] = field(default_factory=list)
    numbers: list[_Number] = field(default_factory=list)
    groups: int = 0

    def add(self, regex: str) -> None:
        self.flush()
        self.parts.append(regex)

    def number(self, number: _Number) -> None:
        if self.numbers and not number.is_fixed:
            self.flush()
        self.numbers.append(number)

    def flush(self) -> None:
        """A number and the fixed-width ones after it share their digits, without backtracking."""
        if not self.numbers:
            return
        alone = len(self.numbers) == 1
        digits = [self.group(each.name, each.regex(greedy=alone)) for each in self.numbers]
        self.parts.append(f"(?>{''.join(digits)})")
        self.numbers.clear()

    def group(self, name: str, regex: str) -> str:
        """A field may occur more than once, as in `[MM][M]`, so groups are numbered."""
        self.groups += 1
        return f"(?P<{name}__{self.groups}>{regex})"


@dataclass(frozen=True)
class TimePattern:
    """A pattern that parses texts."""

    text: str

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(_to_regex(self.text), re.ASCII)

    def parse(self, text: str) -> datetime:
        """The time of a text, without a zone; UnparsableError if it is none."""
        found = self._regex.fullmatch(text)
        if found is None:
            raise UnparsableError(f"{text!r} does not match {self.text!r}")
        try:
            return _resolve(_fields(found.groupdict()))
        except (ValueError, OverflowError) as error:
            raise UnparsableError(f"{text!r} is not a date: {error}") from None


def _fields(groups: Mapping[str, str | None]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for group, value in groups.items():
        name = group.partition("__")[0]
        if value is None:
            continue
        if fields.setdefault(name, value).lstrip("0") != value.lstrip("0"):
            raise ValueError(f"it contains both {fields[name]} and {value}")
    return fields


@lru_cache(maxsize=64)
def make_pattern(text: str) -> TimePattern:
    """Compile a pattern; PatternError if it is invalid."""
    pattern = TimePattern(text)
    try:
        _ = pattern._regex  # noqa: SLF001 - compiled now, so that an invalid pattern fails at once
    except re.error as error:
        raise PatternError(f"the pattern {text!r} cannot be used: {error}") from None
    return pattern


def _to_regex(text: str) -> str:
    writer, depth = _Writer(), 0
    for piece in _pieces(text):
        depth += _NESTING.get(piece, 0)
        if depth < 0:
            raise PatternError(f"the pattern {text!r} has a ] without a [")
        if piece in _NESTING:
            writer.add(_BRACKETS[piece])
        elif piece[0].isascii() and piece[0].isalpha():
            _add_field(writer, piece, text)
        else:
            writer.add(re.escape(piece.removeprefix("'")))
    writer.flush()
    return "".join(writer.parts) + _BRACKETS["]"] * depth


def _pieces(text: str) -> Iterator[str]:
    """Runs of one letter, brackets, and literals; quoted ones start with a quote."""
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "'":
            literal, at = _quoted(text, at)
            yield literal
        elif letter in "{}#":
            raise PatternError(f"the pattern {text!r} contains the reserved {letter!r}")
        elif letter.isascii() and letter.isalpha():
            run = "".join(next(groupby(text[at:]))[1])
            at += len(run)
            yield run
        else:
            at += 1
            yield letter


def _quoted(text: str, start: int) -> tuple[str, int]:
    """A quoted literal, and where it ends; two quotes stand for one."""
    found = re.compile(r"'((?:[^']|'')*)'").match(text, start)
    if found is None:
        raise PatternError(f"the pattern {text!r} has an unclosed quote")
    return "'" + (found[1].replace("''", "'") or "'"), found.end()


def _add_field(writer: _Writer, letters: str, pattern: str) -> None:
    letter, count = letters[0], len(letters)
    if letter in "yu":
        writer.number(_year(letter, count))
    elif letter in "ML" and count in (3, 4):
        writer.add(writer.group("month_name", _month_names(count)))
    elif letter in _SHORT_NUMBERS and count <= 2:
        writer.number(_short_number(_FIELDS[letter], count))
    elif letter == "D" and count <= 3:
        writer.number(
            _Number("yearday", count, 3, is_fixed=count == 3)
            if count > 1
            else _short_number("yearday", 1)
        )
    elif letter == "S" and count <= 9:
        writer.number(_Number("fraction", count, count, is_fixed=True))
    elif letter == "a" and count == 1:
        writer.add(writer.group("half_name", "AM|PM"))
    else:
        raise _refused(letters, pattern)


_FIELDS = {
    "M": "month",
    "L": "month",
    "d": "day",
    "H": "hour",
    "h": "clock12",
    "K": "hour12",
    "k": "clock24",
    "m": "minute",
    "s": "second",
}


def _refused(letters: str, pattern: str) -> PatternError:
    known = letters[0] in _FOREIGN or letters[0] in _FIELDS or letters[0] in "yuDSa"
    what = "is not supported" if known else "has no meaning"
    return PatternError(f"{letters!r} in the pattern {pattern!r} {what}")


def _year(letter: str, count: int) -> _Number:
    name = "era_year" if letter == "y" else "year"
    if count == 2:
        return _Number("short_year", 2, 2, is_fixed=True)
    # Java pads to at least four digits, and requires a sign before a longer year.
    return _Number(name, count, _MOST_DIGITS if count < 4 else count)


def _short_number(name: str, count: int) -> _Number:
    return _Number(name, count, 2 if count == 2 else _MOST_DIGITS, is_fixed=count == 2)


def _month_names(count: int) -> str:
    """English names; full names are abbreviated since Java 9, and were not before."""
    short = "|".join(month[:3] for month in _MONTHS)
    return f"{'|'.join(_MONTHS)}|{short}" if count == 4 else short


def _resolve(fields: Mapping[str, str]) -> datetime:
    numbers = {name: int(value) for name, value in fields.items() if not name.endswith("_name")}
    date = _date(numbers, fields)
    hour = _hour(numbers, fields)
    return date if hour is None else date + _time(hour, numbers, fields)


def _date(numbers: Mapping[str, int], fields: Mapping[str, str]) -> datetime:
    year = _year_of(numbers)
    if "yearday" in numbers:
        return _day_of_year(year, numbers["yearday"])
    month = numbers.get("month")
    if "month_name" in fields:
        month = 1 + [each[:3] for each in _MONTHS].index(fields["month_name"][:3])
    if year is None or month is None or "day" not in numbers:
        raise ValueError("a year, a month and a day are needed")
    _check("day", numbers["day"], 1, 31)
    _check("month", month, 1, 12)
    return datetime(year, month, min(numbers["day"], _last_day(year, month)))  # noqa: DTZ001


def _year_of(numbers: Mapping[str, int]) -> int | None:
    if "short_year" in numbers:
        return _FIRST_YEAR_OF_TWO_DIGITS + numbers["short_year"]
    if "era_year" in numbers:
        _check("year", numbers["era_year"], 1, 999_999_999)
        return numbers["era_year"]
    return numbers.get("year")


def _day_of_year(year: int | None, day: int) -> datetime:
    if year is None:
        raise ValueError("a year is needed")
    first = datetime(year, 1, 1)  # noqa: DTZ001
    _check("day of the year", day, 1, 366 if _last_day(year, 2) == 29 else 365)
    return first + timedelta(days=day - 1)


def _last_day(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _hour(numbers: Mapping[str, int], fields: Mapping[str, str]) -> int | None:
    """The hour of the day; None if the fields do not determine it."""
    if "hour" in numbers:
        return numbers["hour"]
    if "clock24" in numbers:
        _check("hour", numbers["clock24"], 0, 24)
        return numbers["clock24"] % 24
    half = numbers.get("hour12")
    if "clock12" in numbers:
        _check("hour", numbers["clock12"], 0, 12)
        half = numbers["clock12"] % 12
    if half is None or "half_name" not in fields:
        return None
    _check("hour", half, 0, 11)
    return half + 12 * _HALVES.index(fields["half_name"])


def _time(hour: int, numbers: Mapping[str, int], fields: Mapping[str, str]) -> timedelta:
    """The time of day; midnight if a larger part is missing before a smaller one, as in Java."""
    names = ("minute", "second", "fraction")
    present = [name in numbers for name in names]
    if sorted(present, reverse=True) != present:
        return timedelta()
    minute, second = numbers.get("minute", 0), numbers.get("second", 0)
    micros = int(fields.get("fraction", "0").ljust(6, "0")[:6])
    is_end_of_day = (hour, minute, second, micros) == (24, 0, 0, 0)
    _check("hour", hour, 0, 24 if is_end_of_day else 23)
    _check("minute", minute, 0, 59)
    _check("second", second, 0, 59)
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{value} is not a valid {name}")


_USUAL = re.compile(
    r"(-?\d{4,10})-(-?\d{1,2})-(-?\d{1,2})"
    r"(?: (-?\d{1,2}):(-?\d{1,2}):(-?\d{1,2})(?:\.(\d{1,9}))?)?",
    re.ASCII,
)


def parse_usual(text: str) -> datetime:
    """A time written `y-M-d` or `y-M-d H:m:s.f`; the 32nd of March is the first of April.

    Java reads `31-12-26` as the year 31. It is far more likely a day of this century written in
    reverse, so years have at least four digits here.
    """
    found = _USUAL.fullmatch(text)
    if found is None:
        raise UnparsableError(f"{text!r} does not match y-M-d or y-M-d H:m:s")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    try:
        first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)  # noqa: DTZ001
        return first + timedelta(
            days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=micros
        )
    except (ValueError, OverflowError) as error:
        raise UnparsableError(f"{text!r} is not a date: {error}") from None
