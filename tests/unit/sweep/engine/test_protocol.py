from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.protocol import read_split, split_rows

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
STORES = Stores()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Twelve rows in parts of 5, 4 and 3 rows, in whichever order their names bring."""
    parts: list[Part] = []
    for rows in (range(5), range(5, 9), range(9, 12)):
        writer = DatasetWriter(STORES, str(tmp_path), SCHEMA)
        columns = {"number": list(rows), "text": [str(row) for row in rows]}
        writer.add(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))
        parts += writer.finish()
    return commit_dataset(STORES, str(tmp_path), parts, SCHEMA)


def numbers(dataset: Dataset, shares: int) -> list[list[int]]:
    return [
        [
            number
            for batch in read_split(STORES, dataset, share, ["number"])
            for number in batch["number"].to_pylist()
        ]
        for share in split_rows(dataset, shares)
    ]


@pytest.mark.parametrize("shares", [1, 2, 3, 5, 7, 12, 40])
def test_every_row_is_in_one_share(dataset: Dataset, shares: int) -> None:
    found = [number for share in numbers(dataset, shares) for number in share]
    assert sorted(found) == list(range(12))


@pytest.mark.parametrize("shares", [1, 2, 3, 5, 7, 12, 40])
def test_shares_are_of_one_size(dataset: Dataset, shares: int) -> None:
    sizes = {len(share) for share in numbers(dataset, shares)}
    assert max(sizes) - min(sizes) <= 1


def test_no_more_shares_than_rows(dataset: Dataset) -> None:
    assert len(split_rows(dataset, 40)) == 12


def test_nothing_has_no_shares(tmp_path: Path) -> None:
    assert split_rows(commit_dataset(STORES, str(tmp_path), [], SCHEMA), 4) == []


def test_a_share_has_all_columns_unless_told(dataset: Dataset) -> None:
    (share,) = split_rows(dataset, 1)
    assert next(read_split(STORES, dataset, share)).schema.names == ["number", "text"]
