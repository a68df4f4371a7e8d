"""Read the data files of an inventory as batches of files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakesweep.errors import DamagedError, LimitError, MissingError, TruncatedError, UsageError
from lakesweep.storage.address import folder_identity, identities, parse
from lakesweep.storage.file_batches import FILE_SCHEMA, FIRST_TIME
from lakesweep.storage.listing.inventory import InventoryFormat, InventoryPart
from lakesweep.storage.s3.keys import Encoding, decode
from lakesweep.untrusted.limits import DEFAULT_LIMITS, reading
from lakesweep.untrusted.orc_process import orc_batches

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: The columns of a batch by their meaning.
Columns: TypeAlias = dict[str, pa.Array]

_PIECE_BYTES = 8 << 20
_ROWS = 1 << 16
_MOST_HEADER_BYTES = 1 << 16
_MODIFIED = FILE_SCHEMA.field("modified").type

# Accepted column names, reduced to letters and digits.
_NAMES = {
    "path": ("path", "filepath"),
    "bucket": ("bucket",),
    "key": ("key",),
    "size_bytes": ("sizebytes", "size", "length"),
    "modified": ("modified", "lastmodified", "lastmodifieddate", "modificationtime"),
    "etag": ("etag",),
    "is_latest": ("islatest",),
    "is_delete_marker": ("isdeletemarker",),
    "is_folder": ("isdir", "isdirectory"),
}

_KNOWN_NAMES = tuple(name for some in _NAMES.values() for name in some)

_MAGIC = ((b"PAR1", InventoryFormat.PARQUET), (b"ORC", InventoryFormat.ORC))


def read_inventory_part(
    stores: StoreOpener, part: InventoryPart, locations: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The files (FILE_SCHEMA) of a data file that are below one of the locations.

    The whole data file is fetched and compared with its size and checksum before the first row is
    returned. Of an object with several versions only the latest counts, and none if it was deleted.
    """
    folders = [folder_identity(location) for location in locations]
    with _fetched(stores, part) as file, reading(part.path):
        for batch in _batches(file, part):
            yield _below(_files(batch, part), folders)


@contextmanager
def _fetched(stores: StoreOpener, part: InventoryPart) -> Iterator[BinaryIO]:
    """The data file on the local disk: memory does not grow with it."""
    address = parse(part.path)
    store = stores.open(address)
    checksum = hashlib.md5(usedforsecurity=False)
    with tempfile.TemporaryFile(prefix="lakesweep-inventory-") as file:
        try:
            # One piece beyond the declared size is enough to see that it is wrong.
            while file.tell() <= part.size_bytes and (
                piece := store.read_range(address.key, file.tell(), _PIECE_BYTES)
            ):
                checksum.update(piece)
                file.write(piece)
        except MissingError as error:
            raise DamagedError(part.path, "a data file of the inventory is missing") from error
        # A truncated inventory would hide files from the listing, and dangling references would
        # look real.
        if file.tell() != part.size_bytes:
            raise TruncatedError(part.path, f"has {file.tell()} bytes instead of {part.size_bytes}")
        if part.md5 is not None and checksum.hexdigest() != part.md5.lower():
            raise DamagedError(part.path, "does not match the manifest: wrong MD5")
        file.seek(0)
        yield file


def _batches(file: BinaryIO, part: InventoryPart) -> Iterator[pa.RecordBatch]:
    start = file.read(4)
    file.seek(0)
    known = next((form for magic, form in _MAGIC if start.startswith(magic)), InventoryFormat.CSV)
    match part.format or known:
        case InventoryFormat.PARQUET:
            yield from _parquet_batches(file, part)
        case InventoryFormat.ORC:
            yield from orc_batches(part.path, file, _KNOWN_NAMES)
        case _:
            yield from _csv_batches(file, part)


def _parquet_batches(file: BinaryIO, part: InventoryPart) -> Iterator[pa.RecordBatch]:
    names = _needed(pq.ParquetFile(file).schema_arrow.names)
    # Texts stay in their dictionaries until their size is known: a file of some kilobytes can hold
    # one long text for millions of rows.
    table = pq.ParquetFile(file, read_dictionary=names)
    for batch in table.iter_batches(_ROWS, columns=names):
        columns = [_plain_column(column, part) for column in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain_column(column: pa.Array, part: InventoryPart) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    if (pc.sum(lengths.cast(pa.int64())).as_py() or 0) > DEFAULT_LIMITS.block_bytes:
        most = f"{DEFAULT_LIMITS.block_bytes:,}"
        raise LimitError(part.path, f"has more than {most} bytes of text in {_ROWS:,} rows")
    return column.dictionary_decode()


def _csv_batches(file: BinaryIO, part: InventoryPart) -> Iterator[pa.RecordBatch]:
    is_gzip = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    text = gzip.GzipFile(fileobj=file) if is_gzip else file
    names = part.columns or _header(text)
    text.seek(0)
    # Types are not inferred: everything is read as text and converted explicitly.
    yield from pa_csv.open_csv(
        text,
        pa_csv.ReadOptions(
            column_names=names, skip_rows=0 if part.columns else 1, block_size=_PIECE_BYTES
        ),
        pa_csv.ParseOptions(newlines_in_values=part.columns is None),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=_needed(names)
        ),
    )


def _needed(names: Iterable[str]) -> list[str]:
    return [name for name in names if _plain(name) in _KNOWN_NAMES]


def _header(text: gzip.GzipFile | BinaryIO) -> list[str]:
    # Bounded: compressed, a line without an end is small.
    return next(csv.reader([text.readline(_MOST_HEADER_BYTES).decode("utf-8-sig")]), [])


def _files(batch: pa.RecordBatch, part: InventoryPart) -> pa.RecordBatch:
    """The rows of files that exist."""
    columns = _find_columns(batch, part)
    exists = _exists(columns, batch.num_rows)
    columns = {meaning: column.filter(exists) for meaning, column in columns.items()}
    nothing = pa.nulls(len(columns["modified"]))
    arrays = {
        "path": _paths(columns, part),
        "kind": nothing,
        "size_bytes": _sizes(_empty_as_null(columns.get("size_bytes", nothing)), part),
        "modified": _times(columns, part),
        "etag": _trimmed(columns.get("etag", nothing)),
    }
    typed = [arrays[field.name].cast(field.type) for field in FILE_SCHEMA]
    return pa.RecordBatch.from_arrays(typed, schema=FILE_SCHEMA)


def _sizes(values: pa.Array, part: InventoryPart) -> pa.Array:
    sizes = values.cast(pa.int64())
    if pc.any(pc.less(sizes, 0)).as_py():
        raise DamagedError(part.path, "has a file with a negative size")
    return sizes


def _find_columns(batch: pa.RecordBatch, part: InventoryPart) -> Columns:
    """The columns by meaning; UsageError if one is missing."""
    found = {_plain(name): batch.column(place) for place, name in enumerate(batch.schema.names)}
    columns = {
        meaning: next(found[name] for name in names if name in found)
        for meaning, names in _NAMES.items()
        if any(name in found for name in names)
    }
    if not ("path" in columns or {"bucket", "key"} <= columns.keys()):
        raise _missing(part, "the path, or for bucket and key")
    if "modified" not in columns:
        raise _missing(part, "the modification time")
    return columns


def _missing(part: InventoryPart, what: str) -> UsageError:
    return UsageError(
        f"{part.path}: this inventory has no column for {what}",
        hint="name them path (or bucket and key), size and modified; "
        "an S3 inventory must include LastModifiedDate and Size",
    )


def _exists(columns: Columns, count: int) -> pa.Array:
    there = pa.array([True] * count, pa.bool_())
    if "is_latest" in columns:
        there = _is_true(columns["is_latest"])
    for meaning in ("is_delete_marker", "is_folder"):
        if meaning in columns:
            there = pc.and_not(there, _is_true(columns[meaning]))
    return there


def _is_true(values: pa.Array) -> pa.Array:
    truths = pc.equal(pc.utf8_lower(values), "true") if pa.types.is_string(values.type) else values
    return truths.cast(pa.bool_()).fill_null(False)


def _paths(columns: Columns, part: InventoryPart) -> pa.Array:
    if "path" in columns and part.source is None:
        return _named(columns["path"], part)
    buckets, keys = columns["bucket"], _named(columns["key"], part)
    if part.source is not None:
        if not pc.all(pc.equal(buckets, part.source).fill_null(False), min_count=0).as_py():
            raise DamagedError(part.path, f"has keys of a bucket other than {part.source}")
        keys = _decoded(keys) if part.format is InventoryFormat.CSV else keys
    return pc.binary_join_element_wise(pc.binary_join_element_wise("s3://", buckets, ""), keys, "/")


def _named(values: pa.Array, part: InventoryPart) -> pa.Array:
    names = values.cast(pa.string())
    if names.null_count or pc.any(pc.equal(names, "")).as_py():
        raise DamagedError(part.path, "has rows without a file name")
    if pc.any(pc.match_substring(names, "\0")).as_py():
        raise DamagedError(part.path, "has a file name with a NUL character")
    return names


def _decoded(keys: pa.Array) -> pa.Array:
    """Decode keys in S3's CSV files, which are form-encoded: escapes, and `+` for a space."""
    if not pc.any(pc.match_substring_regex(keys, "[%+]")).as_py():
        return keys
    return pa.array(decode(keys.to_pylist(), Encoding.FORM), pa.string())


def _times(columns: Columns, part: InventoryPart) -> pa.Array:
    moments = _moments(_empty_as_null(columns["modified"]), part).cast(_MODIFIED)
    # Integers are milliseconds since 1970, but some tools write seconds. A file without a plausible
    # time counts as of unknown age, and is kept.
    is_plausible = pc.greater_equal(moments, pa.scalar(FIRST_TIME, _MODIFIED))
    return pc.if_else(is_plausible, moments, pa.scalar(None, _MODIFIED))


def _moments(values: pa.Array, part: InventoryPart) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return _written_moments(values)
    if pa.types.is_int64(kind):
        return values.cast(pa.timestamp("ms", "UTC"))
    if pa.types.is_timestamp(kind) and (kind.tz is not None or part.source is not None):
        return pc.assume_timezone(values, "UTC") if kind.tz is None else values
    raise UsageError(
        f"{part.path}: the times of this inventory have type {kind}",
        hint="write them with a time zone, or as milliseconds since 1970",
    )


def _written_moments(values: pa.Array) -> pa.Array:
    """Milliseconds since 1970, or times with a zone; anything else is an error."""
    if pc.all(pc.match_substring_regex(values, r"^\d+$"), min_count=0).as_py():
        return values.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
    return values.cast(_MODIFIED)


def _empty_as_null(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type):
        return values
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)


def _trimmed(etags: pa.Array) -> pa.Array:
    return pc.utf8_trim(_empty_as_null(etags), '"') if pa.types.is_string(etags.type) else etags


def _below(files: pa.RecordBatch, folders: list[str]) -> pa.RecordBatch:
    names = identities(files["path"])
    inside = (pc.starts_with(names, folder) for folder in folders)
    return files.filter(reduce(pc.or_, inside, pc.equal(names, None).fill_null(False)))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
