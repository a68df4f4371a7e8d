from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lakesweep.cli.render.rows import FileRows
from lakesweep.storage.file_batches import FILE_SCHEMA

_MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)


def _batch(**values: object) -> pa.RecordBatch:
    row = {"path": "s3://lake/a", "kind": None, "size_bytes": 1500, "modified": _MOMENT, **values}
    return pa.RecordBatch.from_pylist([row], schema=FILE_SCHEMA)


def _line(**values: object) -> str:
    return FileRows().encode(_batch(**values)).decode()


def test_a_line_shows_size_time_and_path() -> None:
    assert _line() == " 1.5 kB  2026-01-02T03:04:05Z  s3://lake/a\n"


def test_a_line_shows_the_kind_where_it_is_known() -> None:
    assert _line(kind="data") == f" 1.5 kB  2026-01-02T03:04:05Z  {'data':<20}  s3://lake/a\n"


def test_the_first_batch_decides_on_the_columns() -> None:
    rows = FileRows()
    rows.encode(_batch(kind="data"))
    assert rows.encode(_batch()).decode().split()[2:] == [
        "2026-01-02T03:04:05Z",
        "-",
        "s3://lake/a",
    ]


def test_what_is_unknown_is_a_dash() -> None:
    assert _line(size_bytes=None, modified=None) == f"      -  {'-':<20}  s3://lake/a\n"


def test_a_path_cannot_steer_the_terminal_or_break_the_line() -> None:
    assert _line(path="a\x1b[2Jb\nc").endswith("  a\\x1b[2Jb\\nc\n")


def test_files_and_bytes_are_counted_over_all_batches() -> None:
    rows = FileRows()
    for batch in (_batch(), _batch(size_bytes=None), _batch().slice(0, 0)):
        rows.encode(batch)
    assert (rows.count, rows.size_bytes) == (2, 1500)
