from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakesweep.avro import ProjectedColumn
from lakesweep.errors import DamagedError, FormatError, LimitError
from lakesweep.marks.columnar import read_orc, read_parquet, read_whole_parquet
from lakesweep.marks.parquet_pages import first_codec, page_sizes
from lakesweep.untrusted.limits import ReadLimits

_PATH = "s3://lake/t/metadata/m0.parquet"
_COLUMNS = [
    ProjectedColumn("status", names=("status",), type=pa.int32()),
    ProjectedColumn("path", names=("file", "path"), type=pa.string(), required=True),
]
_ROWS = 3000
_TABLE = pa.table(
    {
        "status": pa.array([1] * _ROWS, pa.int32()),
        "file": pa.array([{"path": f"s3://lake/{n % 700}", "size": n} for n in range(_ROWS)]),
    }
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"file.path": "DELTA_BYTE_ARRAY"}},
        {"data_page_version": "2.0", "compression": "zstd", "data_page_size": 500},
        {"row_group_size": 100, "write_page_checksum": True, "write_statistics": False},
    ],
)
def test_every_page_that_writers_make_is_measured_and_read(options: dict[str, Any]) -> None:
    data = _parquet(_TABLE, **options)
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    chunks = [metadata.row_group(at).column(1) for at in range(metadata.num_row_groups)]
    measured = sum(page_sizes(_PATH, data, [1]))
    headers = sum(chunk.total_uncompressed_size for chunk in chunks) - measured
    assert 0 < headers < 0.1 * measured + 100 * metadata.num_row_groups
    found = pa.Table.from_batches(read_parquet(_PATH, data, _COLUMNS))
    assert found["path"].to_pylist() == [each["path"] for each in _TABLE["file"].to_pylist()]


def test_a_long_value_that_is_repeated_is_decoded_in_small_batches() -> None:
    rows = 100_000
    data = _repeated("x" * 80_000, rows)
    assert len(data) < 20_000
    with pytest.raises(LimitError, match=r"m0.parquet: inflates to more than 33,554,432 bytes"):
        list(read_parquet(_PATH, data, _COLUMNS, ReadLimits(inflated_bytes=1 << 25)))


def test_a_page_that_claims_too_much_is_refused_before_it_is_inflated() -> None:
    data = _repeated("x" * 80_000, 10)
    with pytest.raises(LimitError, match="has a page of more than 1,000 bytes"):
        list(read_parquet(_PATH, data, _COLUMNS, ReadLimits(block_bytes=1000)))


def test_a_struct_in_the_place_of_a_text_is_measured_with_all_that_is_in_it() -> None:
    file = pa.array([{"path": {"long": "x" * 2_000}}])
    data = _parquet(pa.table({"status": pa.array([1], pa.int32()), "file": file}))
    with pytest.raises(LimitError, match="has a page of more than 1,000 bytes"):
        list(read_parquet(_PATH, data, _COLUMNS, ReadLimits(block_bytes=1000)))


def test_a_whole_file_keeps_to_the_limits() -> None:
    with pytest.raises(LimitError, match=r"m0.parquet: inflates to more than 33,554,432 bytes"):
        read_whole_parquet(
            _PATH, _repeated("x" * 80_000, 100_000), ReadLimits(inflated_bytes=1 << 25)
        )


@pytest.mark.parametrize("write", [{}, {"use_dictionary": False}])
def test_a_footer_that_contradicts_itself_does_not_end_the_process(write: dict[str, Any]) -> None:
    """pyarrow's own objects for column chunks do, if texts are said to be decimal fractions."""
    data = _parquet(_TABLE, **write)
    text, fraction = b"\x15\x0c\x25", b"\x15\x08\x25"
    assert text in data
    damaged = data.replace(text, fraction)
    assert first_codec(_PATH, damaged) == "SNAPPY"
    with pytest.raises(DamagedError, match=r"m0\.parquet"):
        list(read_parquet(_PATH, damaged, _COLUMNS))


@pytest.mark.parametrize(
    ("footer", "what"),
    [
        (b"\x19\xf7" + b"\xff" * 8 + b"\x7f", "lies outside the file"),  # 2**62 fractions
        (b"\x19" + b"\x19" * 40, "nested too deeply"),
        (b"\x49\x1c\x19\x1c\x3c\x45\x02\x05\x08\x02\x00\x00\x00\x00", "a field twice"),
        (b"\x49\x1c\x19\x1c\x00\x00\x00", "has no metadata"),
    ],
)
def test_a_footer_that_no_writer_makes_is_damage(footer: bytes, what: str) -> None:
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(DamagedError, match=what):
        list(page_sizes(_PATH, data, [0]))


def test_a_column_whose_name_is_not_text_is_damage() -> None:
    data = _parquet(_TABLE).replace(b"status", b"st\xfftus")
    with pytest.raises(DamagedError, match=r"m0\.parquet: is not a readable Parquet file"):
        list(read_parquet(_PATH, data, _COLUMNS))


def test_rows_that_an_orc_file_only_claims_are_refused() -> None:
    with pytest.raises(LimitError, match="claims to have 3,000 rows"):
        list(read_orc(_PATH, _orc(), _COLUMNS, ReadLimits(inflated_bytes=20_000)))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_orc_raises_nothing_else(seed: int) -> None:
    chosen = random.Random(seed)
    data = bytearray(_orc())
    for _ in range(chosen.randint(1, 3)):
        data[-chosen.randint(1, 600)] ^= 1 << chosen.randrange(8)
    with suppress(FormatError):  # not every bit matters
        list(read_orc(_PATH, bytes(data), _COLUMNS))


def _repeated(value: str, rows: int) -> bytes:
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    file = pa.StructArray.from_arrays(
        [paths.cast(pa.dictionary(pa.int32(), pa.string()))], ["path"]
    )
    table = pa.table({"status": pa.array([1] * rows, pa.int32()), "file": file})
    return _parquet(table, compression="zstd", store_schema=False)


def _parquet(table: pa.Table, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **options)
    return bytes(out.getvalue())


def _orc() -> bytes:
    out = pa.BufferOutputStream()
    orc.write_table(_TABLE, out)
    return bytes(out.getvalue())
