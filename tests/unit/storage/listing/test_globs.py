from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.errors import UsageError
from lakesweep.storage.listing.globs import quote, translate


def matches(pattern: str, path: str) -> bool:
    found: bool = pc.match_substring_regex(pa.array([path]), pattern=translate([pattern]))[
        0
    ].as_py()
    return found


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        # a bare name is a file name in any folder
        ("a.txt", ["a.txt", "x/a.txt", "x/y/a.txt"], ["a.txtx", "xa.txt", "a.txt/b"]),
        ("*.txt", [".txt", "a.txt", "x/b.txt"], ["a.txt/b", "atxt"]),
        # with a slash it is the whole path
        ("x/a", ["x/a"], ["y/x/a", "x/a/b", "x//a"]),
        ("/a", ["a"], ["x/a", "/a"]),
        ("x/*", ["x/a", "x/", "x/.b"], ["x", "x/y/a"]),
        # two stars cross folders
        ("**/a", ["a", "x/a", "x/y/a", "/a"], ["ba", "x/ba"]),
        ("x/**", ["x/a", "x/y/a", "x/"], ["x", "xy/a"]),
        ("x/**/a", ["x/a", "x/y/a", "x/y/z/a"], ["x/ya", "xa"]),
        ("**/_staging/**", ["_staging/a", "x/_staging/y/a"], ["_staging", "x_staging/a"]),
        ("a**z", ["az", "a/b/z", "x/abz"], ["abc"]),
        ("**", ["a", "x/y", ""], []),
        # a slash at the end is all below
        ("_temporary/", ["_temporary/a", "x/_temporary/y/a"], ["_temporary", "x_temporary/a"]),
        ("/tmp/", ["tmp/a"], ["x/tmp/a"]),
        ("x/tmp/", ["x/tmp/a", "x/tmp/b/c"], ["y/x/tmp/a"]),
        # one character
        ("a?c", ["abc", "a\u00e9c", "a\nc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx", "\u00e9x"], ["ax", "x"]),
        ("[^a]", ["b"], ["a"]),
        ("a[+-9]b", ["a+b", "a.b", "a0b"], ["a/b", "a:b"]),
        ("a[!x]b", ["ayb"], ["a/b", "axb"]),
        ("[]x]", ["]", "x"], ["[]x]"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\]", ["\\"], ["]"]),
        # alternatives
        ("*.{parquet,avro}", ["a.parquet", "x/b.avro"], ["a.orc", "a.{parquet,avro}"]),
        ("{a,b/*}/c", ["a/c", "b/x/c"], ["b/c"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "d"]),
        ("a,b}", ["a,b}"], ["a", "b"]),
        # nothing else is special
        ("a.b+(c)|d$^", ["a.b+(c)|d$^"], ["axb+(c)|d$^"]),
        ("\\*\\[\\{\\?", ["*[{?"], ["a[{?"]),
        ("caf\u00e9", ["caf\u00e9"], ["cafe\u0301", "CAF\u00c9"]),
        ("A", ["A"], ["a"]),
    ],
)
def test_patterns_match_as_documented(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [path for path in matching if not matches(pattern, path)] == []
    assert [path for path in other if matches(pattern, path)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("/", "is empty"),
        ("[a", r"unclosed \["),
        ("[]", r"unclosed \["),
        ("{a,b", r"unclosed \{"),
        ("a\\", "ends in a backslash"),
        ("[z-a]", "empty range z-a"),
        ("[/]", "contains only /"),
    ],
)
def test_a_wrong_pattern_is_wrong_usage(pattern: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        translate([pattern])


def test_quoted_text_matches_only_itself() -> None:
    text = "".join(map(chr, range(1, 128)))
    assert pc.match_substring_regex(pa.array([text]), pattern=f"^{quote(text)}$")[0].as_py()
