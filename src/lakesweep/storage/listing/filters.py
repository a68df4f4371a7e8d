r"""File filters by age, size, kind, glob and regex, as Arrow expressions.

An unknown value is never selected: a file without a modification time matches no condition on
age, one without a size none on size, one without a kind none on kind.

Glob patterns are translated once into RE2 regular expressions:

    *       any text within one folder or file name, including none; also matches hidden names
    **      any text across folders; as a whole segment also no folder at all
    ?       one character, not `/`
    [a-z]   one character in the range, [!a-z] one outside of it; never `/`
    {a,b}   one of several patterns, which may be nested
    \x      the character x itself

As in a .gitignore file, a pattern without `/` matches the file name in any folder, and one with `/`
matches the whole path below the listed location. A leading `/` ties a name to the location itself;
a trailing `/` means everything below folders of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UsageError
from lakesweep.storage.file_batches import FILE_SCHEMA

#: Returns the expression for files below a location, whose address ends in `/`.
Condition = Callable[[str], pc.Expression]
_MODIFIED = FILE_SCHEMA.field("modified").type
_SLASH = ord("/")


@dataclass(frozen=True, slots=True)
class Filter:
    """Files that satisfy all conditions; all files if there are none."""

    conditions: tuple[Condition, ...] = ()

    def __and__(self, other: Filter) -> Filter:
        return Filter(self.conditions + other.conditions)

    def expression(self, base: str) -> pc.Expression:
        """One expression over FILE_SCHEMA. Globs and regexes apply to the path below `base`."""
        folder = base if base.endswith("/") else base + "/"
        return reduce(and_, (condition(folder) for condition in self.conditions), pc.scalar(True))

    def apply(self, batch: pa.RecordBatch, base: str) -> pa.RecordBatch:
        """The matching rows, for files below `base`."""
        return batch.filter(self.expression(base)) if self.conditions else batch


def older_than(moment: datetime) -> Filter:
    """Last modified before a moment."""
    return Filter((partial(_older, _aware(moment)),))


def newer_than(moment: datetime) -> Filter:
    """Last modified after a moment."""
    return Filter((partial(_newer, _aware(moment)),))


def min_size(size_bytes: int) -> Filter:
    """At least this many bytes."""
    return Filter((partial(_at_least, size_bytes),))


def max_size(size_bytes: int) -> Filter:
    """At most this many bytes."""
    return Filter((partial(_at_most, size_bytes),))


def kind(kinds: Iterable[str]) -> Filter:
    """Of one of these kinds."""
    return Filter((partial(_of_kind, tuple(kinds)),))


def glob(patterns: Iterable[str]) -> Filter:
    """Matches one of these patterns; no condition if there are none."""
    given = tuple(patterns)
    return Filter((partial(_matches, translate(given)),)) if given else Filter()


def exclude(patterns: Iterable[str]) -> Filter:
    """Matches none of these patterns."""
    given = tuple(patterns)
    return Filter((partial(_matches_not, translate(given)),)) if given else Filter()


def regex(pattern: str) -> Filter:
    """The path below the location contains a match of an RE2 expression."""
    if not pattern:
        raise UsageError("an empty regular expression matches everything", hint="leave it out")
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{pattern!r} is not a valid regular expression: {error}") from error
    return Filter((partial(_matches, pattern),))


def _older(moment: datetime, _: str) -> pc.Expression:
    return pc.field("modified") < pa.scalar(moment, _MODIFIED)


def _newer(moment: datetime, _: str) -> pc.Expression:
    return pc.field("modified") > pa.scalar(moment, _MODIFIED)


def _at_least(size_bytes: int, _: str) -> pc.Expression:
    return pc.field("size_bytes") >= size_bytes


def _at_most(size_bytes: int, _: str) -> pc.Expression:
    return pc.field("size_bytes") <= size_bytes


def _of_kind(kinds: tuple[str, ...], _: str) -> pc.Expression:
    return pc.field("kind").isin(pa.array(kinds, pa.string()))


def _matches(pattern: str, base: str) -> pc.Expression:
    return _is_below(base) & _match(pattern, base)


def _matches_not(pattern: str, base: str) -> pc.Expression:
    # A path outside the location cannot be matched reliably, so it is not selected.
    return _is_below(base) & ~_match(pattern, base)


def _is_below(base: str) -> pc.Expression:
    return pc.starts_with(pc.field("path"), pattern=base)


def _match(pattern: str, base: str) -> pc.Expression:
    relative = pc.utf8_slice_codeunits(pc.field("path"), start=len(base))
    return pc.match_substring_regex(relative, pattern=pattern)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise UsageError(f"{moment} has no time zone", hint="add Z for UTC, or an offset")
    return moment


def translate(patterns: Iterable[str]) -> str:
    """One RE2 expression that matches a whole relative path if any pattern does."""
    alternatives = "|".join(_Translation(pattern).whole() for pattern in patterns)
    return f"^(?s:{alternatives})$"


class _Translation:
    """Parses one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._text = pattern.removeprefix("/")
        self._at = 0
        # Whether a segment starts here, and whether one started at each open brace.
        self._starts = True
        self._braces: list[bool] = []

    def whole(self) -> str:
        if not self._text:
            raise self._wrong("is empty")
        is_folder = self._text.endswith("/")
        self._text = self._text.removesuffix("/")
        anchored = self._pattern.startswith("/") or "/" in self._text
        expression = ("" if anchored else "(?:.*/)?") + "".join(self._parts())
        if self._braces:
            raise self._wrong("has an unclosed {")
        return expression + ("/.*" if is_folder else "")

    def _parts(self) -> Iterator[str]:
        while self._at < len(self._text):
            yield self._brace() or self._plain()

    def _brace(self) -> str | None:
        match self._text[self._at]:
            case "{":
                self._braces.append(self._starts)
                part = "(?:"
            case "," if self._braces:
                self._starts = self._braces[-1]
                part = "|"
            case "}" if self._braces:
                self._braces.pop()
                self._starts = False
                part = ")"
            case _:
                return None
        self._at += 1
        return part

    def _plain(self) -> str:
        part = self._character()
        self._starts = self._text[self._at - 1] == "/"
        return part

    def _character(self) -> str:
        character = self._text[self._at]
        if character == "*":
            return self._stars()
        self._at += 1
        match character:
            case "?":
                return "[^/]"
            case "[":
                return self._class()
            case "\\":
                return self._escaped()
            case _:
                return quote(character)

    def _stars(self) -> str:
        start = self._at
        while self._text.startswith("*", self._at):
            self._at += 1
        if self._at - start == 1:
            return "[^/]*"
        if self._starts and self._text.startswith("/", self._at):
            self._at += 1
            return "(?:.*/)?"
        return ".*"

    def _escaped(self) -> str:
        if self._at == len(self._text):
            raise self._wrong("ends in a backslash")
        self._at += 1
        return quote(self._text[self._at - 1])

    def _class(self) -> str:
        end = self._text.find("]", self._at + 1 + self._text.startswith(("!", "^"), self._at))
        if end < 0:
            raise self._wrong("has an unclosed [")
        body, self._at = self._text[self._at : end], end + 1
        negated = body[0] in "!^"
        ranges = self._ranges(body[1:] if negated else body)
        parts = [part for one in ranges for part in _without_slash(*one)]
        if negated:
            return f"[^/{''.join(parts)}]"
        if not parts:
            raise self._wrong("has a class that contains only /")
        return f"[{''.join(parts)}]"

    def _ranges(self, body: str) -> list[tuple[int, int]]:
        ranges = []
        while body:
            is_range = len(body) > 2 and body[1] == "-"
            first, last = ord(body[0]), ord(body[2] if is_range else body[0])
            if first > last:
                raise self._wrong(f"has the empty range {body[:3]}")
            ranges.append((first, last))
            body = body[3 if is_range else 1 :]
        return ranges

    def _wrong(self, reason: str) -> UsageError:
        return UsageError(f"the glob {self._pattern!r} {reason}", hint="escape a literal [ { or \\")


def quote(text: str) -> str:
    """The text as an RE2 expression that matches only itself."""
    return "".join(c if c.isalnum() or not c.isascii() else f"\\x{{{ord(c):x}}}" for c in text)


def _without_slash(first: int, last: int) -> Iterator[str]:
    """A range of characters as parts of an RE2 class, without the slash."""
    for start, end in ((first, min(last, _SLASH - 1)), (max(first, _SLASH + 1), last)):
        if start <= end:
            yield f"\\x{{{start:x}}}-\\x{{{end:x}}}"
