"""Read datasets, verified against their manifest."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakesweep.errors import DamagedError, MissingError
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import (
    MANIFEST_NAME,
    Dataset,
    DatasetManifest,
    Part,
    dataset_folder,
    sha256_of,
)

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from lakesweep.storage.object_store import ObjectStore, StoreOpener


class RangeFile(io.RawIOBase):
    """Reads each range with its own request; `size_bytes` is the known size of the object."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size_bytes - self._position)
        length = left if size < 0 else min(size, left)
        data = self._store.read_range(self._key, self._position, length) if length else b""
        self._position += len(data)
        return data


_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


_SKIMMED_ROWS = 1_024


def load_dataset(stores: StoreOpener, address: str) -> Dataset:
    """The dataset at an address; MissingError if none was ever committed there."""
    folder = dataset_folder(address)
    try:
        data = stores.open(folder).read(folder.key + MANIFEST_NAME)
    except MissingError as error:
        raise MissingError(folder.path, f"has no {MANIFEST_NAME}: no committed dataset") from error
    return DatasetManifest.decode(folder.path + MANIFEST_NAME, data).dataset(folder.path)


def load_vouched(
    stores: StoreOpener, address: str, sha256: str, *, hint: str | None = None
) -> Dataset:
    """The dataset at an address whose hash is known; DamagedError if another one is there."""
    dataset = load_dataset(stores, address)
    if dataset.sha256 != sha256:
        reason = "is not the dataset that was written there"
        raise DamagedError(dataset.address, reason, hint=hint)
    return dataset


def check_parts(stores: StoreOpener, dataset: Dataset) -> None:
    """DamagedError unless all parts exist with their sizes; for readers that bypass this module."""
    store = stores.open(parse(dataset.address))
    for part in dataset.parts:
        path = dataset.address + part.name
        with _translating(path):
            _check_size(path, store.head(parse(path).key).size_bytes, part)


def read_dataset(
    stores: StoreOpener,
    dataset: Dataset,
    columns: Sequence[str] | None = None,
    filter: Expression | None = None,  # noqa: A002
    *,
    verify: bool = True,
) -> Iterator[pa.RecordBatch]:
    """All rows, part by part, in bounded memory; see `read_part`."""
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
    """The rows of one part that the filter selects, with some or all columns.

    DamagedError if the part is not what was committed: its hash is compared before the first row is
    returned. Without `verify`, only these columns are read, and only the size, the row count, the
    columns and the checksum of each page are compared.
    """
    path = dataset.address + part.name
    with _translating(path):
        fragment = _open_part(stores, dataset, part, verify=verify)
        wanted = None if columns is None else list(columns)
        # One row group at a time: scanning the whole part would read ahead of a slow consumer.
        for group in fragment.split_by_row_group(filter, dataset.schema):
            rows = group.to_table(dataset.schema, wanted, filter, use_threads=False)
            yield from rows.to_batches()


def scan_groups(
    stores: StoreOpener, dataset: Dataset, start: int = 0
) -> Iterator[tuple[int, ds.ParquetFileFragment]]:
    """The row groups from row number `start` on, each with the number of its first row.

    For looking at a few rows of many: whole parts are skipped unread, hashes are not compared, and
    a group reads the columns that it is asked for, with the checksum of each page.
    """
    place = 0
    for part in dataset.parts:
        if place + part.rows > start:
            path, first = dataset.address + part.name, place
            with _translating(path):
                for group in _open_part(stores, dataset, part, verify=False).split_by_row_group():
                    if first + group.row_groups[0].num_rows > start:
                        yield first, group
                    first += group.row_groups[0].num_rows
        place += part.rows


def skim_dataset(
    stores: StoreOpener,
    dataset: Dataset,
    filter: Expression | None = None,  # noqa: A002
) -> Iterator[pa.RecordBatch]:
    """All rows in small batches, for readers who stop after a few.

    As in `scan_groups`, hashes are not compared; no more is decoded than what is taken.
    """
    for part in dataset.parts:
        path = dataset.address + part.name
        with _translating(path):
            file = pq.ParquetFile(_ranges(stores, path, part), page_checksum_verification=True)
            _check_columns(path, file.metadata.num_rows, file.schema_arrow, dataset.schema, part)
            for batch in file.iter_batches(_SKIMMED_ROWS, use_threads=False):
                yield batch if filter is None else batch.filter(filter)


def read_row_range(
    stores: StoreOpener,
    dataset: Dataset,
    part: Part,
    rows: range,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The given rows of one part, holding at most one row group in memory."""
    path = dataset.address + part.name
    with _translating(path):
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
    rows, found = fragment.metadata.num_rows, fragment.physical_schema
    _check_columns(path, rows, found, dataset.schema, part)
    return fragment


@contextmanager
def _translating(path: str) -> Iterator[None]:
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
    # Compared before parsing: a plan must never be read from altered bytes.
    if sha256_of(data) != part.sha256:
        raise DamagedError(path, "this part of the dataset has the wrong SHA-256")
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


def _check_columns(path: str, rows: int, found: pa.Schema, schema: pa.Schema, part: Part) -> None:
    if rows != part.rows:
        raise DamagedError(path, f"this part of the dataset has {rows} rows, not {part.rows}")
    if not found.equals(schema):
        raise DamagedError(path, "this part of the dataset has the wrong columns")
