"""List whole locations as Arrow batches, in parallel and in bounded memory.

A location can also be cut into pieces, which tasks on other machines list independently.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DeniedError, LakesweepError, MissingError
from lakesweep.storage.address import Address, folder_identity, parse
from lakesweep.storage.file_batches import FILE_SCHEMA, coalesce_batches
from lakesweep.storage.listing.key_splits import Split, split
from lakesweep.storage.listing.scan import ListPool, Scan, walk
from lakesweep.storage.object_store import ENTRY_SCHEMA, ObjectInfo, ObjectStore, StoreOpener


def list_files(
    stores: StoreOpener, location: str | Address, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """All files at and below a location, as batches of FILE_SCHEMA in no particular order.

    A location is a folder: `t1` never means `t10`. Without a trailing `/` it also names the object
    with exactly that key, which comes first and costs one more request. On stores with real
    folders, MissingError means that neither exists. The first error ends the listing and is raised:
    what came before it is incomplete. Closing the iterator early stops the requests.

    A location of one page costs one request. A longer one is cut into key ranges while it is read,
    if the store lists in order; otherwise, and with one worker, it is read sequentially.
    """
    address = parse(location) if isinstance(location, str) else location
    entries = _list_location(stores.open(address), address, workers)
    return _to_batches(address.base, entries)


def list_object(stores: StoreOpener, address: Address) -> Iterator[pa.RecordBatch]:
    """The object with exactly this key, if it exists; nothing below it."""
    found = _find_object(stores.open(address), address)
    if found is not None:
        yield _to_files(address.base, found)


def list_splits(
    store: ObjectStore, splits: Iterable[Split], *, base: str, workers: int = 1
) -> Iterator[pa.RecordBatch]:
    """All files of some splits of one store; `base` is the prefix of their paths."""
    if workers > 1 and store.capabilities.ordered:
        entries = ListPool(store, workers).run([Scan(store, split) for split in splits])
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
    """The object that a location without a trailing slash may name."""
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
        yield from ListPool(store, workers).run([scan])


def _read(store: ObjectStore, split: Split) -> Iterator[pa.RecordBatch]:
    if store.capabilities.ordered:
        return Scan(store, split).pages()
    return walk(store, split)


def _to_batches(
    base: str, entries: Generator[pa.RecordBatch, None, None]
) -> Iterator[pa.RecordBatch]:
    with closing(entries):
        for batch in coalesce_batches(entries):
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


Item = TypeVar("Item")

#: Requests are sequential, and the split need not be perfect.
_REQUESTS_PER_PART = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a location: all of it, a range of its keys, or the object that it names."""

    location: str
    split: Split | None = None
    is_object: bool = False


def cut_locations(
    stores: StoreOpener, locations: Sequence[str], parts: int
) -> list[tuple[Piece, ...]]:
    """At most `parts` groups of pieces that together cover the locations, each file once.

    A location inside another one is left out. There are fewer groups if there is little to list. If
    a location is missing, listing it raises MissingError.
    """
    outermost = _outermost(locations)
    share = max(1, parts // max(1, len(outermost)))
    pieces = [piece for location in outermost for piece in _cut(stores, parse(location), share)]
    return even_groups(pieces, parts)


def even_groups(items: Sequence[Item], groups: int) -> list[tuple[Item, ...]]:
    """The items in order, in at most this many groups of nearly equal size, none empty."""
    count = min(groups, len(items))
    edges = [number * len(items) // count for number in range(count + 1)] if count else []
    return [tuple(items[start:end]) for start, end in pairwise(edges)]


def list_pieces(
    stores: StoreOpener, pieces: Sequence[Piece], *, workers: int = 8
) -> Iterator[pa.RecordBatch]:
    """The files of some pieces, as FILE_SCHEMA."""
    for piece in pieces:
        address = parse(piece.location)
        if piece.is_object:
            yield from list_object(stores, address)
        elif piece.split is None:
            yield from list_files(stores, address, workers=workers)
        else:
            store = stores.open(address)
            yield from list_splits(store, [piece.split], base=address.base, workers=workers)


def _cut(stores: StoreOpener, address: Address, parts: int) -> list[Piece]:
    whole = [Piece(address.path)]
    is_folder = address.key == address.folder
    # A location without a trailing slash may also be an object, which is a piece of its own.
    parts = parts if is_folder else parts - 1
    if parts <= 1:
        return whole
    try:
        splits = split(
            stores.open(address), address.folder, parts, max_requests=_REQUESTS_PER_PART * parts
        )
    except LakesweepError:
        return whole  # listing it says what is wrong
    if len(splits) == 1:
        return whole
    found = [Piece(address.path, one) for one in splits]
    return found if is_folder else [Piece(address.path, is_object=True), *found]


def _outermost(locations: Sequence[str]) -> list[str]:
    """The locations without those inside others, or equal to others in another spelling.

    Of two spellings the one without a trailing slash stays, since it includes the object.
    """
    chosen: list[str] = []
    last = None
    for location in sorted(locations, key=lambda path: (folder_identity(path), path[-1:] == "/")):
        identity = folder_identity(location)
        if last is None or not identity.startswith(last):
            chosen.append(location)
            last = identity
    return chosen
