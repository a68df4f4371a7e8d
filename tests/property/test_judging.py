"""The judge against a loop that reads like the rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.judge.reasons import JudgeRules, judge
from lakesweep.sweep.paths.folder_map import FolderMap

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CUTOFF = NOW - timedelta(days=7)
MAPS = ("pinned", "own", "foreign", "incomplete", "opted_out", "locations", "tables")

names = st.sampled_from(["a", "t1", "t10", "_x", ".y", "a.parquet", "b.txt", "data", ""])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "s3://b/" + "/".join(parts))
folders = st.lists(names, max_size=2).map(lambda parts: "s3://b/" + "".join(f"{p}/" for p in parts))
times = st.none() | st.sampled_from(
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        CUTOFF - timedelta(microseconds=1),
        CUTOFF,
        NOW,
        NOW + timedelta(microseconds=1),
    ]
)


@dataclass(frozen=True)
class File:
    path: str
    modified: datetime | None
    referenced: bool


files = st.lists(st.builds(File, paths, times, st.booleans()), max_size=12)
claims = st.fixed_dictionaries({name: st.lists(folders, max_size=2) for name in MAPS})
excludes = st.lists(st.sampled_from(["*.txt", "a/**", "/data"]), max_size=2).map(tuple)


@given(files, claims, excludes, st.sampled_from(["keep", "delete"]))
def test_each_file_gets_the_first_reason_that_holds(
    asked: list[File], claimed: dict[str, list[str]], globs: tuple[str, ...], unknown: str
) -> None:
    maps: dict[str, Any] = {
        name: FolderMap((each, each) for each in found) for name, found in claimed.items()
    }
    rules = JudgeRules(
        now=NOW, cutoff=CUTOFF, excludes=globs, keep_unknown=unknown == "keep", **maps
    )
    rows = judge(
        _listing(asked),
        pa.array([file.path for file in asked], pa.string()),
        pa.array([file.referenced for file in asked], pa.bool_()),
        rules,
    )
    expected = [_reason(file, claimed, globs, unknown) for file in asked]
    assert rows["reason"].to_pylist() == expected
    assert rows["verdict"].to_pylist() == [
        "delete" if reason == "unreferenced" else "keep" for reason in expected
    ]
    assert rows["table"].to_pylist() == [
        max((each for each in claimed["tables"] if file.path.startswith(each)), default=None)
        for file in asked
    ]


def _listing(asked: list[File]) -> pa.RecordBatch:
    rows = [
        {"path": file.path, "size_bytes": 1, "modified": file.modified, "h1": number, "h2": 0}
        for number, file in enumerate(asked)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LISTING)


def _reason(file: File, claimed: dict[str, list[str]], globs: tuple[str, ...], unknown: str) -> str:
    def lies_in(name: str) -> bool:
        return any((file.path + "/").startswith(each) for each in claimed[name])

    around = [each for each in claimed["locations"] if file.path.startswith(each)]
    below = [file.path.removeprefix(each) for each in around]
    time = file.modified
    reasons = {
        "referenced": file.referenced,
        "pinned": lies_in("pinned"),
        "own": lies_in("own"),
        "outside": not around,
        "foreign": lies_in("foreign"),
        "incomplete-root": lies_in("incomplete"),
        "opted-out": lies_in("opted_out"),
        "excluded": any(_matches(glob, path) for glob in globs for path in below),
        "age-unknown": time is None or time.year == 1970 or time > NOW,
        "too-new": time is not None and time >= CUTOFF,
        "hidden": unknown == "keep" and _is_hidden(min(below, key=len, default="")),
        "unknown-kind": unknown == "keep" and not file.path.endswith(".parquet"),
        "unreferenced": True,
    }
    return next(reason for reason, holds in reasons.items() if holds)


def _is_hidden(below: str) -> bool:
    return any(name.startswith((".", "_")) for name in below.split("/"))


def _matches(glob: str, below: str) -> bool:
    match glob:
        case "*.txt":
            return below.endswith(".txt")
        case "a/**":
            return below.startswith("a/")
        case _:
            return below == "data"
