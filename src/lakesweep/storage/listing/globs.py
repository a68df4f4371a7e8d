r"""Glob patterns, translated once into RE2 regular expressions.

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

from collections.abc import Iterable, Iterator

from lakesweep.errors import UsageError

_SLASH = ord("/")


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
