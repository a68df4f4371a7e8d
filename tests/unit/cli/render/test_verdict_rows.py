from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakesweep.cli.render.rows import MissingRows, VerdictRows
from lakesweep.sweep.columns import MISSING, VERDICTS


def verdicts(**changed: Any) -> pa.RecordBatch:
    row = {
        "path": "s3://lake/a",
        "verdict": "delete",
        "reason": "unreferenced",
        "rule": "aborted-write",
        "size_bytes": 1500,
        "modified": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "h1": 0,
        "h2": 0,
    }
    return pa.RecordBatch.from_pylist([row | changed], schema=VERDICTS)


def test_a_verdict_is_one_line() -> None:
    assert VerdictRows().encode(verdicts()).decode() == (
        "delete  unreferenced      1.5 kB  2026-01-02T03:04:05Z  s3://lake/a  (aborted-write)\n"
    )


def test_what_is_not_known_is_a_dash_and_no_rule_is_nothing() -> None:
    unknown = verdicts(size_bytes=None, modified=None, rule=None)
    line = VerdictRows().encode(unknown).decode()
    assert line.split() == ["delete", "unreferenced", "-", "-", "s3://lake/a"]


def test_names_steer_no_terminal_and_break_no_line() -> None:
    line = VerdictRows().encode(verdicts(path="s3://lake/\x1b[1m\n")).decode()
    assert "s3://lake/\\x1b[1m\\n" in line
    assert line.count("\n") == 1


def test_rows_are_counted() -> None:
    rows = VerdictRows()
    for size in (1500, None):
        rows.encode(verdicts(size_bytes=size))
    assert rows.summary() == "2 files, 1.5 kB"


def test_a_missing_file_is_one_line() -> None:
    row = {"path": "s3://lake/a", "kind": None, "size_bytes": 7, "table": "t1"}
    batch = pa.RecordBatch.from_pylist([row], schema=MISSING)
    assert MissingRows().encode(batch).decode().split() == ["-", "t1", "s3://lake/a"]
