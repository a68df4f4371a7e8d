"""Table options as typed values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction

from lakesweep.errors import ConfigError

_QUANTITY = re.compile(r"(\d+)\s*([a-zµ]*)", re.IGNORECASE)

_NANOSECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_DATA_ROOTS, _INDEX_ROOT = "data-file.external-paths", "global-index.external-path"
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Options:
    """Options by name. An option is only parsed when it is read."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The option as written; None where it is not set."""
        return self.values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        """An option that is true or false."""
        text = self.values.get(name)
        return default if text is None else bool(_look_up(_FLAGS, text.strip().lower(), name, text))

    def integer(self, name: str, default: int) -> int:
        """An option that is a whole number."""
        text = self.values.get(name)
        try:
            return default if text is None else int(text)
        except ValueError:
            raise _wrong(name, text) from None

    def duration(self, name: str, default: timedelta | None = None) -> timedelta | None:
        """An option such as `1 h` or `30 min`; a bare number is milliseconds."""
        text = self.values.get(name)
        if text is None:
            return default
        amount = _quantity(_NANOSECONDS, text, name)
        try:
            return timedelta(microseconds=float(Fraction(amount, 1000)))
        except OverflowError:
            return timedelta.max

    def size_bytes(self, name: str, default: int) -> int:
        """An option such as `8 mb`; a bare number is bytes."""
        text = self.values.get(name)
        return default if text is None else _quantity(_BYTES, text, name)

    @property
    def external_roots(self) -> Iterator[str]:
        """The external roots of data files, and that of indexes over the whole table."""
        for text in (*(self.text(_DATA_ROOTS) or "").split(","), self.text(_INDEX_ROOT) or ""):
            if root := text.strip():
                yield root.rstrip("/") + "/"

    def with_values(self, values: Mapping[str, str]) -> Options:
        """The same options, some of them set otherwise."""
        return Options({**self.values, **values})


def _quantity(units: Mapping[str, int], text: str, name: str) -> int:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise _wrong(name, text)
    return int(found[1]) * _look_up(units, found[2].lower(), name, text)


def _look_up(values: Mapping[str, int], key: str, name: str, text: str) -> int:
    if key not in values:
        raise _wrong(name, text)
    return values[key]


def _wrong(name: str, text: str | None) -> ConfigError:
    return ConfigError(
        f"the table's option {name} is {text!r}, which is no value for it",
        hint="set the option right with ALTER TABLE",
    )
