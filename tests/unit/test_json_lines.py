from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.json_lines import encode_lines
from lakesweep.storage.file_batches import FILE_SCHEMA

_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def _lines(batch: pa.RecordBatch) -> list[str]:
    return bytes(encode_lines(batch)).decode().split("\n")[:-1]


def _files(*rows: tuple[object, ...]) -> pa.RecordBatch:
    names = FILE_SCHEMA.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=FILE_SCHEMA
    )


def test_a_file_is_one_object_with_its_fields_in_order() -> None:
    batch = _files(("s3://lake/a", "data", 5, _MOMENT, "e1"))
    [line] = _lines(batch)
    assert line == (
        '{"path":"s3://lake/a","kind":"data","size_bytes":5,'
        '"modified":"2026-01-02T03:04:05Z","etag":"e1"}'
    )


def test_what_is_unknown_is_null() -> None:
    line = _lines(_files(("s3://lake/a", None, None, None, None)))[0]
    assert line == (
        '{"path":"s3://lake/a","kind":null,"size_bytes":null,"modified":null,"etag":null}'
    )


@pytest.mark.parametrize(
    ("microsecond", "text"),
    [
        (0, "2026-01-02T03:04:50Z"),
        (500_000, "2026-01-02T03:04:50.5Z"),
        (120_000, "2026-01-02T03:04:50.12Z"),
        (1, "2026-01-02T03:04:50.000001Z"),
    ],
)
def test_a_fraction_of_a_second_is_as_long_as_it_must_be(microsecond: int, text: str) -> None:
    moment = _MOMENT.replace(second=50, microsecond=microsecond)
    assert json.loads(_lines(_files(("a", None, 0, moment, None)))[0])["modified"] == text


@given(st.lists(st.none() | _TEXT, min_size=1))
def test_every_text_comes_back_as_it_was(texts: list[str | None]) -> None:
    batch = pa.record_batch({"path": pa.array(texts, pa.string())})
    assert [json.loads(line)["path"] for line in _lines(batch)] == texts


@given(st.lists(_TEXT, min_size=3), st.data())
def test_a_slice_gives_only_its_own_rows(texts: list[str], data: st.DataObject) -> None:
    batch = pa.record_batch({"path": pa.array(texts, pa.string())})
    start = data.draw(st.integers(0, len(texts)))
    part = batch.slice(start, data.draw(st.integers(0, len(texts) - start)))
    assert [json.loads(line)["path"] for line in _lines(part)] == part.column(0).to_pylist()


def test_an_empty_batch_gives_nothing() -> None:
    assert bytes(encode_lines(_files())) == b""


def test_truth_values_and_columns_of_nothing_have_a_text() -> None:
    batch = pa.record_batch({"a": pa.array([True, None]), "b": pa.nulls(2)})
    assert _lines(batch) == ['{"a":true,"b":null}', '{"a":null,"b":null}']


def test_a_column_without_a_json_text_is_refused() -> None:
    batch = pa.record_batch({"a": pa.array([b"x"])})
    with pytest.raises(TypeError, match="binary"):
        encode_lines(batch)


def test_rows_of_a_slice_are_escaped_and_others_are_not_looked_at() -> None:
    batch = _files(*((f's3://lake/"{n}', None, None, None, None) for n in range(4)))
    assert _lines(batch.slice(1, 2)) == _lines(batch)[1:3]
    assert _lines(batch.slice(4)) == []
