from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.storage.datasets.spool import Spool
from lakesweep.storage.file_batches import FILE_SCHEMA


def batch(*sizes: int | None) -> pa.RecordBatch:
    rows = [{"path": f"s3://b/{size}", "size_bytes": size} for size in sizes]
    return pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA)


def test_what_was_written_is_read_back_and_counted() -> None:
    with Spool() as spool:
        for rows in (batch(1, 2), batch(), batch(3, None)):
            spool.add(rows)
        assert (spool.files, spool.size_bytes) == (4, 6)
        for _ in range(2):
            read = pa.Table.from_batches(spool.batches())
            assert read["size_bytes"].to_pylist() == [1, 2, 3, None]


def test_it_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spool() as spool:
        spool.add(batch(1))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
