""""""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.errors import UsageError
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.filters import (
    Filter,
    exclude,
    glob,
    kind,
    max_size,
    min_size,
    newer_than,
    older_than,
    quote,
    regex,
    translate,
)

BASE = "s3://lake/t/"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def batch_of(*rows: Mapping[str, object]) -> pa.RecordBatch:
    empty = dict.fromkeys(FILE_SCHEMA.names)
    return pa.RecordBatch.from_pylist([{**empty, **row} for row in rows], schema=FILE_SCHEMA)


def selected(wanted: Filter, *rows: Mapping[str, object]) -> list[int]:
    """The numbers of the rows that pass."""
    numbered = [{"path": BASE + "a", **row, "etag": str(n)} for n, row in enumerate(rows)]
    return [int(n) for n in wanted.apply(batch_of(*numbered), BASE).column("etag").to_pylist()]


def matched(wanted: Filter, *keys: str) -> list[str]:
    rows = batch_of(*({"path": BASE + key} for key in keys))
    paths = wanted.apply(rows, BASE).column("path").to_pylist()
    return [path.removeprefix(BASE) for path in paths]


def test_age_is_cut_at_the_moment_itself() -> None:
    rows = [{"modified": NOON + offset * SECOND} for offset in (-1, 0, 1)]
    assert selected(older_than(NOON), *rows) == [0]
    assert selected(newer_than(NOON), *rows) == [2]


def test_a_moment_may_be_in_any_zone() -> None:
    here = NOON.astimezone(timezone(timedelta(hours=5)))
    assert selected(older_than(here), {"modified": NOON - SECOND}, {"modified": NOON}) == [0]


def test_a_moment_without_a_zone_is_refused() -> None:
    for condition in (older_than, newer_than):
        with pytest.raises(UsageError, match="zone"):
            condition(datetime(2026, 1, 1))  # noqa: DTZ001


def test_sizes_include_their_limits() -> None:
    rows = [{"size_bytes": size} for size in (0, 9, 10, 11)]
    assert selected(min_size(10), *rows) == [2, 3]
    assert selected(max_size(10), *rows) == [0, 1, 2]


def test_kinds_are_a_choice() -> None:
    rows = [{"kind": name} for name in ("data", "manifest", "metadata")]
    assert selected(kind(["data", "metadata"]), *rows) == [0, 2]


@pytest.mark.parametrize(
    "condition",
    [older_than(NOON), newer_than(NOON), min_size(0), max_size(10**18), kind(["data"]), kind([])],
)
def test_what_is_unknown_is_never_selected(condition: Filter) -> None:
    assert selected(condition, {}) == []


def test_conditions_are_joined() -> None:
    rows = [{"size_bytes": size, "kind": name} for size in (1, 5) for name in ("data", "manifest")]
    assert selected(min_size(2) & kind(["data"]), *rows) == [2]
    assert selected(Filter() & Filter(), *rows) == [0, 1, 2, 3]


def test_regular_expressions_search_the_path_below_the_location() -> None:
    keys = ("a/x.parquet", "s3/a", "b")
    assert matched(regex("^a/"), *keys) == ["a/x.parquet"]
    assert matched(regex("s3|b"), *keys) == ["s3/a", "b"]


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "[z-a]"])
def test_a_wrong_regular_expression_is_wrong_usage(pattern: str) -> None:
    with pytest.raises(UsageError, match="not a valid regular expression"):
        regex(pattern)


def test_several_globs_are_alternatives() -> None:
    keys = ("a.parquet", "b.avro", "c.txt")
    assert matched(glob(["*.parquet", "*.avro"]), *keys) == ["a.parquet", "b.avro"]
    assert matched(exclude(["*.parquet", "*.avro"]), *keys) == ["c.txt"]


def test_no_globs_are_no_condition() -> None:
    assert matched(glob([]) & exclude([]), "a") == ["a"]


def test_what_lies_outside_the_location_is_never_selected() -> None:
    rows = batch_of({"path": "s3://lake/t10/a"}, {"path": "s3a://lake/t/a"}, {"path": "s3://"})
    for condition in (glob(["**"]), exclude(["nothing"]), regex(".*")):
        assert condition.apply(rows, "s3://lake/t").num_rows == 0


def test_filters_can_be_pickled() -> None:
    both = older_than(NOON) & glob(["*.parquet"])
    rows = batch_of({"path": BASE + "a.parquet", "modified": NOON - SECOND})
    assert pickle.loads(pickle.dumps(both)).apply(rows, BASE).num_rows == 1


def test_an_empty_batch_stays_one() -> None:
    both = min_size(1) & glob(["*"])
    assert both.apply(batch_of(), BASE).schema == FILE_SCHEMA


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
