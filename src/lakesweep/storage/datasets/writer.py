"""Write datasets: rows in a folder of Parquet files, committed as a whole or not at all.

Writers put parts into the folder, `part-<uuid>.parquet`, each under a unique name. The
manifest, `_dataset.json`, is written last and names the parts with their rows, sizes and
hashes. A folder without a manifest is unfinished and is ignored; parts that the manifest does
not name are left over from attempts that failed or ran twice. So any writer may be killed,
repeated or run twice at once: a reader gets what was committed, or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.decoding import convert
from lakesweep.errors import ExistsError, MissingError, UnsupportedError
from lakesweep.storage.address import Address
from lakesweep.storage.datasets.manifest import (
    MANIFEST_NAME,
    Dataset,
    DatasetManifest,
    Part,
    dataset_folder,
    sha256_of,
)

if TYPE_CHECKING:
    from lakesweep.storage.object_store import ObjectStore, StoreOpener


_ROWS_IN_A_GROUP = 1 << 16
#: A part is built in memory, because stores write whole objects.
_BYTES_IN_A_PART = 32 << 20
#: Columns whose values rarely repeat: a dictionary would cost time and space.
_DISTINCT = frozenset({"path", "address", "etag", "h1", "h2", "size_bytes", "modified"})


#: Parts as rows, for writers that can only return rows.
PART_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
    ]
)


class DatasetWriter:
    """Writes rows into new parts of a dataset; use one writer per thread or task.

    `parts` are the stored ones. `finish` stores the rest; a writer that was not finished has
    nothing to commit.
    """

    def __init__(self, stores: StoreOpener, address: str, schema: pa.Schema) -> None:
        self._folder = dataset_folder(address)
        self._store = stores.open(self._folder)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._file: _PartFile | None = None
        self._parts: list[Part] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Columns are selected by name and must have the types of the schema."""
        self._waiting.append(batch.select(self._schema.names).cast(self._schema))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= _ROWS_IN_A_GROUP:
            self._write_group()

    def finish(self) -> tuple[Part, ...]:
        """Store the rest; returns all parts. A writer without rows has none."""
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
        # A part counts only once it is stored: `_parts` must never name an object that may be
        # missing.
        self._store.write(self._folder.key + part.name, data)
        self._parts.append(part)
        self._file = None


class _PartFile:
    """A Parquet file under construction."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = 0
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _DISTINCT],
            write_statistics=[field.name for field in schema if not _is_category(field)],
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


def _is_category(field: pa.Field) -> bool:
    """Whether values are texts that repeat: statistics on them would never skip a row group."""
    return bool(pa.types.is_string(field.type)) and field.name not in _DISTINCT


def new_part_name() -> str:
    """A unique part name."""
    return f"part-{uuid4().hex}.parquet"


def write_parts(
    stores: StoreOpener, address: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write rows into new parts and yield these as PART_SCHEMA; the kernel of a write task."""
    writer = DatasetWriter(stores, address, schema)
    for batch in batches:
        writer.add(batch)
    rows = [msgspec.to_builtins(part) for part in writer.finish()]
    yield pa.RecordBatch.from_pylist(rows, schema=PART_SCHEMA)


def parts_of(batch: pa.RecordBatch) -> list[Part]:
    """The parts in rows of PART_SCHEMA."""
    return convert(batch.to_pylist(), list[Part])


def commit_dataset(
    stores: StoreOpener, address: str, parts: Iterable[Part], schema: pa.Schema
) -> Dataset:
    """Commit stored parts as the dataset at an address.

    Committing the same parts again changes nothing; ExistsError if the address has another dataset.
    """
    folder = dataset_folder(address)
    manifest = DatasetManifest.of(parts, schema)
    # The manifest comes last and only once. Before it there is no dataset, however many parts
    # exist.
    _write_once(stores.open(folder), folder.child(folder.key + MANIFEST_NAME), manifest.encode())
    return manifest.dataset(folder.path)


def write_dataset(
    stores: StoreOpener, address: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Dataset:
    """Write rows as the dataset at an address, in this process."""
    writer = DatasetWriter(stores, address, schema)
    for batch in batches:
        writer.add(batch)
    return commit_dataset(stores, address, writer.finish(), schema)


def _write_once(store: ObjectStore, address: Address, data: bytes) -> None:
    """Write an object that never changes; it may already exist with the same content."""
    try:
        store.write_new(address.key, data)
    # Without conditional writes two committers could race here; leases keep to one run per lake.
    except UnsupportedError:
        _check_absent(store, address, data)
        store.write(address.key, data)
    except ExistsError:
        _check_absent(store, address, data)


def _check_absent(store: ObjectStore, address: Address, data: bytes) -> None:
    try:
        # The same content is success: an earlier attempt committed and its response was lost.
        found = store.read(address.key)
    except MissingError:
        return
    if found != data:
        raise ExistsError(
            address.path, "another dataset has been committed here", hint="choose another address"
        )
