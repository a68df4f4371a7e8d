""""""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.storage.address import identity
from lakesweep.storage.datasets.spool import Spool, unique_files
from lakesweep.storage.file_batches import FILE_SCHEMA


def batch(*sizes: int | None) -> pa.RecordBatch:
    rows = [{"path": f"s3://b/{size}", "size_bytes": size} for size in sizes]
    return pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA)


def test_a_spool_is_closed_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        with Spool():
            (folder,) = tmp_path.iterdir()
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


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


def batches(paths: list[str], rows: int = 50) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(paths), rows):
        part = paths[start : start + rows]
        yield pa.record_batch({"path": pa.array(part, pa.string()), "row": list(range(len(part)))})


def names(stream: Iterator[pa.RecordBatch]) -> list[str]:
    return [path for batch in stream for path in batch["path"].to_pylist()]


def repeated(distinct: int, times: int) -> list[str]:
    return [f"s3://lake/t/{number % distinct:05d}.parquet" for number in range(distinct * times)]


def test_first_sights_come_in_order() -> None:
    paths = ["s3://b/2", "s3://b/1", "s3://b/2", "s3://b/3", "s3://b/1"]
    assert names(unique_files(batches(paths, 2))) == ["s3://b/2", "s3://b/1", "s3://b/3"]


def test_spellings_of_one_store_are_one_file() -> None:
    assert names(unique_files(batches(["s3a://b/k", "s3://b/k", "s3n://b/k"]))) == ["s3a://b/k"]


def test_keys_that_look_alike_stay_apart() -> None:
    paths = ["s3://b/a//b", "s3://b/a/b", "s3://b/a%2Fb", "s3://b/A/b"]
    assert names(unique_files(batches(paths))) == paths


@pytest.mark.parametrize("memory_bytes", [0, 1_000, 20_000])
def test_beyond_its_memory_it_goes_on_on_disk(memory_bytes: int) -> None:
    paths = repeated(distinct=3_000, times=3)
    found = names(unique_files(batches(paths), memory_bytes=memory_bytes))
    assert sorted(found) == sorted(set(paths))


def test_what_was_spilled_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = unique_files(batches(repeated(2_000, 2)), memory_bytes=1_000)
    next(stream)
    names(stream)
    assert list(tmp_path.iterdir()) == []


def test_nothing_gives_nothing() -> None:
    assert names(unique_files(iter(()))) == []


def test_identity_decides_not_the_first_spelling() -> None:
    paths = ["s3a://lake/x", "s3://lake/y", "s3://lake/x"]
    assert {identity(path) for path in names(unique_files(batches(paths, 1)))} == {
        "s3://lake/x",
        "s3://lake/y",
    }
