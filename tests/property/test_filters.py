"""Globs in Arrow against a slow matcher that follows the documentation word by word."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.storage.listing.filters import translate

_TEXT = st.text(alphabet="ab./-\u00e9", max_size=8)
_LITERAL = st.sampled_from(["a", "b", "/", ".", "-", "\u00e9", "\\*", "\\a"])
_CLASS = st.sampled_from(["[ab]", "[!a]", "[.-a]", "[^-/]", "[]a]"])
_LEAF = st.one_of(_LITERAL, _CLASS, st.sampled_from(["*", "**", "?", "/**/", "**/", "/**", "/"]))
_PART = st.recursive(
    _LEAF,
    lambda part: st.lists(st.lists(part, max_size=3).map("".join), min_size=1, max_size=3).map(
        lambda parts: "{" + ",".join(parts) + "}"
    ),
    max_leaves=5,
)
_PATTERN = st.lists(_PART, min_size=1, max_size=5).map("".join).filter(lambda p: p.strip("/"))


def oracle(pattern: str, path: str) -> bool:
    """Whether the pattern matches, by trying every way in which it could."""
    body = pattern.removeprefix("/")
    folder = body.endswith("/")
    body = body.removesuffix("/")
    anchored = pattern.startswith("/") or "/" in body
    starts = [0] if anchored else [0, *(i + 1 for i, c in enumerate(path) if c == "/")]
    for start in starts:
        for end in _ends(body, 0, path, start):
            if end == len(path) and not folder:
                return True
            if folder and path[end : end + 1] == "/":
                return True
    return False


def _ends(pattern: str, at: int, path: str, start: int, begins: bool = True) -> Iterator[int]:
    """Where a match of the rest of the pattern can end that begins at `start`.

    `begins` says whether the pattern itself begins a segment.
    """
    if at == len(pattern):
        yield start
        return
    for width, ends in _steps(pattern, at, path, start, begins):
        for end in ends:
            yield from _ends(pattern, at + width, path, end, begins)


def _steps(
    pattern: str, at: int, path: str, start: int, begins: bool
) -> Iterator[tuple[int, list[int]]]:
    segment = begins if at == 0 else pattern[at - 1] == "/"
    character, here = pattern[at], path[start : start + 1]
    one = [start + 1] if here and here != "/" else []
    if character == "*":
        stars = len(pattern) - at - len(pattern[at:].lstrip("*"))
        whole = segment and pattern[at + stars : at + stars + 1] == "/"
        yield _star_step(stars, whole, path, start)
    elif character == "?":
        yield 1, one
    elif character == "[":
        close = pattern.index("]", at + 2 + (pattern[at + 1] in "!^"))
        yield close + 1 - at, one if one and _in_class(pattern[at + 1 : close], here) else []
    elif character == "{":
        close, parts = _alternatives(pattern, at)
        for part in parts:
            yield close + 1 - at, list(_ends(part, 0, path, start, segment))
    elif character == "\\":
        yield 2, [start + 1] if here == pattern[at + 1] else []
    else:
        yield 1, [start + 1] if here == character else []


def _star_step(stars: int, whole: bool, path: str, start: int) -> tuple[int, list[int]]:
    rest = path[start:]
    if stars == 1:
        return 1, [start + n for n in range(len(rest.split("/")[0]) + 1)]
    if whole:
        return stars + 1, [start, *(start + n + 1 for n, c in enumerate(rest) if c == "/")]
    return stars, [start + n for n in range(len(rest) + 1)]


def _in_class(body: str, character: str) -> bool:
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    found = False
    while members:
        if members[1:2] == "-" and len(members) > 2:
            found |= members[0] <= character <= members[2]
            members = members[3:]
        else:
            found |= character == members[0]
            members = members[1:]
    return found != negated


def _alternatives(pattern: str, at: int) -> tuple[int, list[str]]:
    depth, parts, index = 0, [""], at
    while True:
        character = pattern[index]
        token = character
        if character == "\\":
            token = pattern[index : index + 2]
        elif character == "[":
            close = pattern.index("]", index + 2 + (pattern[index + 1] in "!^"))
            token = pattern[index : close + 1]
        depth += (token == "{") - (token == "}")
        if depth == 0:
            return index, parts
        if depth == 1 and token == ",":
            parts.append("")
        elif not (depth == 1 and token == "{"):
            parts[-1] += token
        index += len(token)


@given(_PATTERN, st.lists(_TEXT, min_size=1, max_size=5))
@example("**/a", ["a", "/a"])
@example("a{**/b,c}", ["a/b", "ab", "ac"])
@example("{**/b,c}", ["b", "a/b", "c"])
def test_globs_match_as_documented(pattern: str, paths: list[str]) -> None:
    found = pc.match_substring_regex(pa.array(paths), pattern=translate([pattern])).to_pylist()
    assert found == [oracle(pattern, path) for path in paths]
