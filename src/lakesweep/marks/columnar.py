"""Read columns of Parquet and ORC manifests that are in memory.

Both formats can repeat one long value millions of times in a few bytes. So Parquet is decoded in
batches that stay small even if every row has the longest value that a page can hold, and all that
was decoded counts against `inflated_bytes`.

How much pages may inflate to is read from their headers (`parquet_pages.py`), before the decoder
reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.errors import DamagedError, LakesweepError, LimitError, TruncatedError
from lakesweep.marks.parquet_pages import page_sizes
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, read_failure

_PARQUET_MAGIC = b"PAR1"
_MOST_ROWS = 1 << 16
_BATCH_BYTES = 1 << 28
#: An ORC stripe is decoded whole, and a row takes at least this much in a batch.
_LEAST_ROW_BYTES = 8
#: The names on the path to a leaf; None if a file does not have it.
FieldPath = tuple[str, ...] | None


@contextmanager
def open_parquet(path: str, data: bytes) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; any problem while it is open is an error that names it."""
    if len(data) <= 2 * len(_PARQUET_MAGIC) or not data.endswith(_PARQUET_MAGIC):
        raise TruncatedError(path, "its Parquet footer is missing")
    with _decoding(path, "Parquet"):
        yield pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


@contextmanager
def open_orc(path: str, data: bytes) -> Iterator[orc.ORCFile]:
    """Open an ORC file in the same way."""
    with _decoding(path, "ORC"):
        yield orc.ORCFile(pa.BufferReader(data))


@contextmanager
def _decoding(path: str, what: str) -> Iterator[None]:
    # Both libraries raise nearly every type of exception for damaged files.
    try:
        yield
    except LakesweepError:
        raise
    except (MemoryError, RecursionError) as error:
        raise read_failure(path, error) from error
    except Exception as error:
        raise DamagedError(path, f"is not a readable {what} file: {error}") from error


def read_parquet(
    path: str,
    data: bytes,
    columns: Sequence[ProjectedColumn],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """Read columns in batches, by field id or name; a column that is missing is null."""
    with open_parquet(path, data) as file:
        ways = _find_all(path, file.schema_arrow, columns)
        sizes = page_sizes(path, data, _leaves(file.schema, _wanted(ways)))
        rows = _batch_rows(path, sizes, limits)
        found = file.iter_batches(rows, columns=_wanted(ways))
        yield from _bounded(path, (_chosen(batch, columns, ways) for batch in found), limits)


def read_whole_parquet(path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> pa.Table:
    """All rows with all columns, within the same limits."""
    with open_parquet(path, data) as file:
        sizes = page_sizes(path, data, range(len(file.schema)))
        batches = file.iter_batches(_batch_rows(path, sizes, limits))
        return pa.Table.from_batches(_bounded(path, batches, limits), file.schema_arrow)


def read_orc(
    path: str,
    data: bytes,
    columns: Sequence[ProjectedColumn],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The same for an ORC file."""
    with open_orc(path, data) as file:
        if file.nrows > limits.inflated_bytes // _LEAST_ROW_BYTES:
            raise LimitError(path, f"claims to have {file.nrows:,} rows")
        ways = _find_all(path, file.schema, columns)
        stripes = (file.read_stripe(stripe, _wanted(ways)) for stripe in range(file.nstripes))
        yield from _bounded(path, (_chosen(stripe, columns, ways) for stripe in stripes), limits)


def _batch_rows(path: str, sizes: Iterable[int], limits: ReadLimits) -> int:
    """How many rows fit into a batch, even if each is as long as the largest page."""
    largest = total = 0
    for size in sizes:
        largest, total = max(largest, size), total + size
        if largest > limits.block_bytes:
            raise LimitError.of(path, "has a page of", limits.block_bytes, "limits.block_bytes")
        if total > limits.inflated_bytes:
            raise _too_large(path, limits)
    most = min(_BATCH_BYTES, limits.inflated_bytes)
    return max(1, min(_MOST_ROWS, most // max(largest, 1)))


def _bounded(
    path: str, batches: Iterable[pa.RecordBatch], limits: ReadLimits
) -> Iterator[pa.RecordBatch]:
    decoded = 0
    for batch in batches:
        decoded += batch.nbytes
        if decoded > limits.inflated_bytes:
            raise _too_large(path, limits)
        yield batch


def _too_large(path: str, limits: ReadLimits) -> LimitError:
    return LimitError.of(path, "inflates to", limits.inflated_bytes, "limits.inflated_bytes")


def _find_all(path: str, schema: pa.Schema, columns: Sequence[ProjectedColumn]) -> list[FieldPath]:
    ways = [_find(schema, column.ids or column.names) for column in columns]
    for column, way in zip(columns, ways, strict=True):
        if column.required and way is None:
            raise DamagedError(path, f"has no column {column.name!r}")
    return ways


def _wanted(ways: Sequence[FieldPath]) -> list[str]:
    return [".".join(way) for way in ways if way is not None]


def _leaves(schema: pq.ParquetSchema, names: Sequence[str]) -> set[int]:
    """The columns that are decoded if these are asked for: these, and all that lie in them."""
    prefixes = tuple(f"{name}." for name in names)
    paths = ((at, f"{schema.column(at).path}.") for at in range(len(schema)))
    return {at for at, path in paths if path.startswith(prefixes)}


def _chosen(
    batch: pa.RecordBatch, columns: Sequence[ProjectedColumn], ways: Sequence[FieldPath]
) -> pa.RecordBatch:
    batch.validate(full=True)
    arrays = [_leaf(batch, way, column.type) for column, way in zip(columns, ways, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _find(fields: pa.Schema | pa.StructType, steps: tuple[int, ...] | tuple[str, ...]) -> FieldPath:
    """The names on the path to a leaf, found by field ids or names."""
    for field in fields:
        if steps[0] in (field.name, _field_id(field)):
            below = () if len(steps) == 1 else _find_below(field.type, steps[1:])
            return None if below is None else (field.name, *below)
    return None


def _find_below(kind: pa.DataType, steps: tuple[int, ...] | tuple[str, ...]) -> FieldPath:
    return _find(kind, steps) if isinstance(kind, pa.StructType) else None


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _leaf(batch: pa.RecordBatch, way: FieldPath, wanted: pa.DataType | None) -> pa.Array:
    if way is None:
        return pa.nulls(batch.num_rows, wanted)
    array = batch[way[0]]
    for name in way[1:]:
        array = pc.struct_field(array, name)
    if pa.types.is_timestamp(array.type) and wanted == pa.int64():
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)  # as in Avro
    return array if wanted is None else array.cast(wanted)
