"""Listing whole locations: Arrow batches out, in parallel, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DeniedError, MissingError
from lakesweep.storage.address import Address, parse
from lakesweep.storage.batches import gather
from lakesweep.storage.crew import Crew
from lakesweep.storage.files import FILE_SCHEMA
from lakesweep.storage.scanning import Scan, walk
from lakesweep.storage.splitting import Split
from lakesweep.storage.store import ENTRY_SCHEMA, ObjectInfo, ObjectStore, StoreOpener


def list_files(
    stores: StoreOpener, location: str | Address, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """All files at and below a location, as batches of FILE_SCHEMA in no particular order.

    A location is a folder: `t1` never means `t10`. Without a `/` at its end it also names the
    object of exactly that key, which comes first and costs one request more. Where a store has
    real folders, MissingError says that there is neither. The first error ends the listing and is
    raised: what came before it is not the whole. Closing the iterator early stops the requests.

    A location of one page costs one request. A longer one is cut into key ranges while it is being
    read, where the store lists in order; elsewhere, and with one worker, it is read in one go.
    """
    address = parse(location) if isinstance(location, str) else location
    entries = _list_location(stores.open(address), address, workers)
    return _to_batches(address.base, entries)


def list_object(stores: StoreOpener, address: Address) -> Iterator[pa.RecordBatch]:
    """The one file that a location names itself, if it is there; nothing below it."""
    found = _find_object(stores.open(address), address)
    if found is not None:
        yield _to_files(address.base, found)


def list_splits(
    store: ObjectStore, splits: Iterable[Split], *, base: str, workers: int = 1
) -> Iterator[pa.RecordBatch]:
    """All files of some splits of one store; `base` is what their paths begin with."""
    if workers > 1 and store.capabilities.ordered:
        entries = Crew(store, workers).run([Scan(store, split) for split in splits])
    else:
        entries = (batch for split in splits for batch in _read(store, split))
    return _to_batches(base, entries)


def _list_location(
    store: ObjectStore, address: Address, workers: int
) -> Generator[pa.RecordBatch, None, None]:
    object_itself = _find_object(store, address)
    if object_itself is not None:
        yield object_itself
    folder = _list_folder(store, Split(address.folder), workers)
    try:
        first = next(folder)
    except MissingError:
        if object_itself is None:
            raise
        return
    yield first
    yield from folder


def _find_object(store: ObjectStore, address: Address) -> pa.RecordBatch | None:
    """The object that a location names itself."""
    if address.key == address.folder:
        return None
    try:
        return _to_entry(store.head(address.key))
    except MissingError:
        return None
    except DeniedError as error:
        hint = "end the location with / to list only the folder"
        raise DeniedError(error.path, error.reason, hint=hint) from error


def _list_folder(store: ObjectStore, split: Split, workers: int) -> Iterator[pa.RecordBatch]:
    if workers == 1 or not store.capabilities.ordered:
        yield from _read(store, split)
        return
    scan = Scan(store, split)
    yield scan.next_page()
    if not scan.is_done:
        yield from Crew(store, workers).run([scan])


def _read(store: ObjectStore, split: Split) -> Iterator[pa.RecordBatch]:
    if store.capabilities.ordered:
        return Scan(store, split).pages()
    return walk(store, split)


def _to_batches(
    base: str, entries: Generator[pa.RecordBatch, None, None]
) -> Iterator[pa.RecordBatch]:
    with closing(entries):
        for batch in gather(entries):
            yield _to_files(base, batch)


def _to_entry(info: ObjectInfo) -> pa.RecordBatch:
    columns = [[info.key], [info.size_bytes], [info.modified], [info.etag]]
    arrays = [pa.array(*pair) for pair in zip(columns, ENTRY_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)


def _to_files(base: str, entries: pa.RecordBatch) -> pa.RecordBatch:
    key, size_bytes, modified, etag = entries.columns
    path = pc.binary_join_element_wise(pa.scalar(base), key, pa.scalar(""))
    kind = pa.nulls(entries.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([path, kind, size_bytes, modified, etag], schema=FILE_SCHEMA)
