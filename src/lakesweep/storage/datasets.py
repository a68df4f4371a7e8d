"""Datasets: rows in a folder of Parquet files, which are there as a whole or not at all.

A dataset is the folder of an address. Writers put parts there, `part-<uuid>.parquet`, each under a
name that nobody else uses. Last comes the manifest, `_dataset.json`, which names the parts with
their rows, sizes and hashes. A folder without a manifest is unfinished and means nothing; parts
that the manifest does not name are litter of attempts that failed or ran twice. So any writer may
be killed, repeated or run beside its double, and what was committed is what is read, or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakesweep.errors import DamagedError, ExistsError, MissingError, UnsupportedError
from lakesweep.storage.address import Address, parse
from lakesweep.storage.dataset_manifest import MANIFEST_NAME, Dataset, Manifest, Part, sha256_of
from lakesweep.storage.ranges import RangeFile

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from lakesweep.storage.store import ObjectStore, StoreOpener

__all__ = [
    "PART_SCHEMA",
    "Dataset",
    "DatasetWriter",
    "Part",
    "check_parts",
    "commit_dataset",
    "load_dataset",
    "new_part_name",
    "parts_of",
    "read_dataset",
    "read_part",
    "read_stretch",
    "write_dataset",
    "write_parts",
]

_ROWS_IN_A_GROUP = 1 << 16
#: A part is made in memory, because stores take whole objects.
_BYTES_IN_A_PART = 32 << 20
#: Columns whose values hardly repeat: a dictionary of them costs time and space.
_DISTINCT = frozenset({"path", "address", "etag", "h1", "h2", "size_bytes", "modified"})

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

#: Parts as rows, for writers that run where only rows come back.
PART_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
    ]
)


class DatasetWriter:
    """Writes rows into new parts of a dataset; one writer a thread or task.

    `parts` are those that are stored. `finish` stores what is left; a writer that was not finished
    has nothing to commit.
    """

    def __init__(self, stores: StoreOpener, address: str, schema: pa.Schema) -> None:
        self._folder = _folder(address)
        self._store = stores.open(self._folder)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._file: _PartFile | None = None
        self._parts: list[Part] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows. Columns are found by name; they must have the types of the schema."""
        self._waiting.append(batch.select(self._schema.names).cast(self._schema))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= _ROWS_IN_A_GROUP:
            self._write_group()

    def finish(self) -> tuple[Part, ...]:
        """Store the rest; gives all parts. A writer that got no rows has none."""
        if self._waiting_rows:
            self._write_group()
        if self._file is not None:
            self._store_part(self._file)
        return tuple(self._parts)

    def _write_group(self) -> None:
        self._file = self._file or _PartFile(self._schema)
        self._file.write(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._waiting_rows = [], 0
        if self._file.size_bytes >= _BYTES_IN_A_PART:
            self._store_part(self._file)

    def _store_part(self, file: _PartFile) -> None:
        data = file.close()
        part = Part(new_part_name(), file.rows, len(data), sha256_of(data))
        self._store.write(self._folder.key + part.name, data)
        self._parts.append(part)
        self._file = None


class _PartFile:
    """A Parquet file in the making."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = 0
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _DISTINCT],
            write_statistics=[field.name for field in schema if not _is_word(field)],
            write_page_checksum=True,
        )

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        self._writer.write_table(table, row_group_size=2 * _ROWS_IN_A_GROUP)

    def close(self) -> bytes:
        self._writer.close()
        return cast("bytes", self._sink.getvalue().to_pybytes())


def _is_word(field: pa.Field) -> bool:
    """Whether values are texts that repeat: their bounds leave no group of rows out."""
    return bool(pa.types.is_string(field.type)) and field.name not in _DISTINCT


def new_part_name() -> str:
    """A name that no other part has."""
    return f"part-{uuid4().hex}.parquet"


def write_parts(
    stores: StoreOpener, address: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write rows into new parts and yield these as PART_SCHEMA: the kernel of a writing task."""
    writer = DatasetWriter(stores, address, schema)
    for batch in batches:
        writer.add(batch)
    rows = [msgspec.to_builtins(part) for part in writer.finish()]
    yield pa.RecordBatch.from_pylist(rows, schema=PART_SCHEMA)


def parts_of(batch: pa.RecordBatch) -> list[Part]:
    """The parts that rows of PART_SCHEMA stand for."""
    return msgspec.convert(batch.to_pylist(), list[Part])


def commit_dataset(
    stores: StoreOpener, address: str, parts: Iterable[Part], schema: pa.Schema
) -> Dataset:
    """Make stored parts the dataset of an address.

    To commit the same again changes nothing; ExistsError where the address has another dataset.
    """
    folder = _folder(address)
    manifest = Manifest.of(parts, schema)
    _write_once(stores.open(folder), folder.child(folder.key + MANIFEST_NAME), manifest.encode())
    return manifest.dataset(folder.path)


def write_dataset(
    stores: StoreOpener, address: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Dataset:
    """Write rows as the dataset of an address, in this process."""
    writer = DatasetWriter(stores, address, schema)
    for batch in batches:
        writer.add(batch)
    return commit_dataset(stores, address, writer.finish(), schema)


def load_dataset(stores: StoreOpener, address: str) -> Dataset:
    """The dataset of an address; MissingError where none was ever finished there."""
    folder = _folder(address)
    try:
        data = stores.open(folder).read(folder.key + MANIFEST_NAME)
    except MissingError as error:
        raise MissingError(folder.path, f"has no {MANIFEST_NAME}: no finished dataset") from error
    return Manifest.decode(folder.path + MANIFEST_NAME, data).dataset(folder.path)


def check_parts(stores: StoreOpener, dataset: Dataset) -> None:
    """DamagedError unless all parts are there in their sizes; for who reads by other means."""
    store = stores.open(parse(dataset.address))
    for part in dataset.parts:
        path = dataset.address + part.name
        with _telling_damage(path):
            _check_size(path, store.head(parse(path).key).size_bytes, part)


def read_dataset(
    stores: StoreOpener,
    dataset: Dataset,
    columns: Sequence[str] | None = None,
    filter: Expression | None = None,  # noqa: A002
    *,
    verify: bool = True,
) -> Iterator[pa.RecordBatch]:
    """All rows, part after part, in memory that does not grow with them; see `read_part`."""
    for part in dataset.parts:
        yield from read_part(stores, dataset, part, columns, filter, verify=verify)


def read_part(
    stores: StoreOpener,
    dataset: Dataset,
    part: Part,
    columns: Sequence[str] | None = None,
    filter: Expression | None = None,  # noqa: A002
    *,
    verify: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of one part that the filter selects, with some of the columns or all.

    DamagedError where the part is not what was committed: its hash is compared before the first row
    comes. Without `verify` only the bytes of these columns are read, and what is compared is the
    size, the number of rows, the columns and the checksum of each page.
    """
    path = dataset.address + part.name
    with _telling_damage(path):
        fragment = _open_part(stores, dataset, part, verify=verify)
        wanted = None if columns is None else list(columns)
        # One group at a time: a scan of the whole would read ahead of a slow reader.
        for group in fragment.split_by_row_group(filter, dataset.schema):
            rows = group.to_table(dataset.schema, wanted, filter, use_threads=False)
            yield from rows.to_batches()


def read_stretch(
    stores: StoreOpener,
    dataset: Dataset,
    part: Part,
    rows: range,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one part at some places, in memory for no more than the groups they are in."""
    path = dataset.address + part.name
    with _telling_damage(path):
        fragment = _open_part(stores, dataset, part, verify=True)
        wanted = None if columns is None else list(columns)
        place = 0
        for group in fragment.split_by_row_group():
            count = group.row_groups[0].num_rows
            first, last = max(rows.start - place, 0), min(rows.stop - place, count)
            if first < last:
                found = group.to_table(dataset.schema, wanted, use_threads=False)
                yield from found.slice(first, last - first).to_batches()
            place += count


def _open_part(
    stores: StoreOpener, dataset: Dataset, part: Part, *, verify: bool
) -> ds.ParquetFileFragment:
    path = dataset.address + part.name
    file = (_whole if verify else _ranges)(stores, path, part)
    fragment = _FORMAT.make_fragment(pa.PythonFile(file, mode="r"))
    _check(path, fragment, dataset.schema, part)
    return fragment


@contextmanager
def _telling_damage(path: str) -> Iterator[None]:
    try:
        yield
    except MissingError as error:
        raise DamagedError(path, "this part of the dataset is missing") from error
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(path, f"this part of the dataset cannot be read: {error}") from error


def _whole(stores: StoreOpener, path: str, part: Part) -> BinaryIO:
    address = parse(path)
    data = stores.open(address).read(address.key)
    _check_size(path, len(data), part)
    if sha256_of(data) != part.sha256:
        raise DamagedError(path, "this part of the dataset has another SHA-256")
    return cast("BinaryIO", pa.BufferReader(data))


def _ranges(stores: StoreOpener, path: str, part: Part) -> BinaryIO:
    address = parse(path)
    store = stores.open(address)
    _check_size(path, store.head(address.key).size_bytes, part)
    return cast("BinaryIO", RangeFile(store, address.key, part.size_bytes))


def _check_size(path: str, size_bytes: int, part: Part) -> None:
    if size_bytes != part.size_bytes:
        raise DamagedError(
            path, f"this part of the dataset has {size_bytes} bytes, not {part.size_bytes}"
        )


def _check(path: str, fragment: ds.ParquetFileFragment, schema: pa.Schema, part: Part) -> None:
    rows = fragment.metadata.num_rows
    if rows != part.rows:
        raise DamagedError(path, f"this part of the dataset has {rows} rows, not {part.rows}")
    if not fragment.physical_schema.equals(schema):
        raise DamagedError(path, "this part of the dataset has other columns")


def _write_once(store: ObjectStore, address: Address, data: bytes) -> None:
    """Write an object that nobody will ever change; it may be there already, equal."""
    try:
        store.write_new(address.key, data)
    except UnsupportedError:
        _check_absent(store, address, data)
        store.write(address.key, data)
    except ExistsError:
        _check_absent(store, address, data)


def _check_absent(store: ObjectStore, address: Address, data: bytes) -> None:
    try:
        found = store.read(address.key)
    except MissingError:
        return
    if found != data:
        raise ExistsError(
            address.path, "another dataset was committed here", hint="choose another address"
        )


def _folder(address: str) -> Address:
    found = parse(address)
    return found.child(found.folder)
