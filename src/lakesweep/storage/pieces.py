"""Locations in pieces, which tasks on other machines list apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.storage.address import Address, folder_identity, parse
from lakesweep.storage.listing import list_files, list_object, list_splits
from lakesweep.storage.splitting import Split, split

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

Item = TypeVar("Item")

#: Requests are made one after another, and a plan need not be perfect.
_REQUESTS_A_PART = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a location: the whole, a range of its keys, or the object that it names itself."""

    location: str
    split: Split | None = None
    is_object: bool = False


def cut_locations(
    stores: StoreOpener, locations: Sequence[str], parts: int
) -> list[tuple[Piece, ...]]:
    """At most `parts` groups of pieces which together are all that the locations hold, each once.

    A location inside another one is left out. Fewer groups come where there is little to list.
    MissingError, where a location is not there at all, comes from listing it.
    """
    outermost = _outermost(locations)
    share = max(1, parts // max(1, len(outermost)))
    pieces = [piece for location in outermost for piece in _cut(stores, parse(location), share)]
    return even_groups(pieces, parts)


def even_groups(items: Sequence[Item], groups: int) -> list[tuple[Item, ...]]:
    """The items in order, in at most so many groups, of which none is empty or much larger."""
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
    # What is no folder may be an object as well, which is a piece of its own.
    parts = parts if is_folder else parts - 1
    if parts <= 1:
        return whole
    try:
        splits = split(
            stores.open(address), address.folder, parts, max_requests=_REQUESTS_A_PART * parts
        )
    except MissingError:
        return whole
    if len(splits) == 1:
        return whole
    found = [Piece(address.path, one) for one in splits]
    return found if is_folder else [Piece(address.path, is_object=True), *found]


def _outermost(locations: Sequence[str]) -> list[str]:
    """The locations without those that lie inside others, or are others in another spelling.

    Of two spellings one without a slash at its end stays, which says more.
    """
    chosen: list[str] = []
    last = None
    for location in sorted(locations, key=lambda path: (folder_identity(path), path[-1:] == "/")):
        identity = folder_identity(location)
        if last is None or not identity.startswith(last):
            chosen.append(location)
            last = identity
    return chosen
