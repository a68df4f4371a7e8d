"""The rows of the store, their limits, and how adapters encode and batch them.

Pages of row heads are read column by column, as NumPy arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lakesweep.errors import DamagedRowError

#: No row holds a larger value: this fits every supported database.
MAX_VALUE_BYTES = 350_000
#: The maximum length of realm ids and reference names in UTF-8, so that any database can use them
#: in a primary key.
MAX_REALM_BYTES = 255
MAX_NAME_BYTES = 1_000
_LARGEST_ID = 2**63 - 1
_ID, _TYPE, _CREATED_AT = map(itemgetter, (0, 2, 3))


@dataclass(frozen=True, slots=True)
class Reference:
    """A named pointer, as it was read.

    `version` counts the swaps since the row was created, at `created_at` (microseconds since 1970).
    `recent` are the previous pointers, newest first: each swap adds one, unless there was none,
    until the list is full.
    """

    name: str
    pointer: int | None
    version: int
    created_at: int
    recent: tuple[int, ...] = ()


class ReferenceGuard(NamedTuple):
    """A reference that an operation depends on, as it was read."""

    realm: str
    reference: Reference


class RowKey(NamedTuple):
    """The key of an object row within its realm."""

    id: int
    part: int = 0


class ObjectHead(NamedTuple):
    """What a scan returns for an object row."""

    id: int
    part: int
    type: str
    created_at: int
    token: int | None


#: The fields of an ObjectHead in order, as any kind of tuple.
HeadFields: TypeAlias = tuple[int, int, str, int, int | None]


class ObjectRow(NamedTuple):
    """A row of an object. Only rows written conditionally have a `token`."""

    id: int
    part: int
    type: str
    created_at: int
    token: int | None
    value: bytes

    @property
    def key(self) -> RowKey:
        return RowKey(self.id, self.part)


#: The fields of an ObjectRow in order, as any kind of tuple.
RowFields: TypeAlias = tuple[int, int, str, int, int | None, bytes]


def row_keys(pairs: Iterable[tuple[int, int]]) -> list[RowKey]:
    """Keys from pairs of id and part; fast for many."""
    return list(map(partial(tuple.__new__, RowKey), pairs))


def first_keys(ids: Iterable[int]) -> list[RowKey]:
    """The keys of the first rows of objects."""
    return row_keys(zip(ids, repeat(0)))


def object_rows(rows: Iterable[Sequence[object]]) -> list[ObjectRow]:
    """Rows from their fields in order; fast for many."""
    return list(map(partial(tuple.__new__, ObjectRow), rows))


class IdSpan(NamedTuple):
    """The ids from `first` to `last`, both included."""

    first: int = 0
    last: int = _LARGEST_ID


EVERY_ID = IdSpan()


def split_span(lowest: int, highest: int, count: int) -> Sequence[IdSpan]:
    """Divide all ids so that `lowest` to `highest` fall into `count` equal shares."""
    if count < 1:
        raise ValueError("a scan needs at least one share")
    width = highest - lowest + 1
    cuts = sorted({lowest + width * share // count for share in range(1, count)} - {lowest})
    firsts = [EVERY_ID.first, *cuts]
    lasts = [*(cut - 1 for cut in cuts), EVERY_ID.last]
    return [IdSpan(first, last) for first, last in zip(firsts, lasts, strict=True)]


Item = TypeVar("Item")


def batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Lists of at most this many items."""
    rest = iter(items)
    while batch := list(islice(rest, most)):
        yield batch


def sized_batches(
    items: Iterable[Item], most: int, size: Callable[[Item], int], most_bytes: int
) -> Iterator[list[Item]]:
    """Lists of at most this many items and bytes, except a single item that is larger."""
    batch: list[Item] = []
    bytes_left = most_bytes
    for item in items:
        taken = size(item)
        if batch and (len(batch) == most or taken > bytes_left):
            yield batch
            batch, bytes_left = [], most_bytes
        batch.append(item)
        bytes_left -= taken
    if batch:
        yield batch


def pack_pointers(pointers: Sequence[int]) -> bytes:
    """Eight bytes per pointer, in order."""
    return struct.pack(f">{len(pointers)}q", *pointers)


def unpack_pointers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 8}q", data)


Value = TypeVar("Value")
Row = Mapping[str, Any]


def detects_damage(read: Callable[[Row], Value]) -> Callable[[Row], Value]:
    """Make a reader raise DamagedRowError if a row lacks what it reads.

    For databases that accept rows of any shape.
    """

    @wraps(read)
    def read_checked(row: Row) -> Value:
        try:
            return read(row)
        except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
            key = {name: row.get(name) for name in ("_id", "pk", "sk") if name in row}
            raise DamagedRowError(f"the row {key} was not written by lakesweep") from error

    return read_checked


@dataclass(frozen=True, slots=True)
class HeadPage:
    """The heads of all rows of some objects, in ascending order of id and part.

    `codes` are indexes into `types`, which holds each type once. `pick` returns whole heads by
    position, which is slow: use it for the few that are needed.
    """

    ids: Ids
    created_at: Ids
    types: Sequence[str]
    codes: Ids
    pick: Callable[[Iterable[int]], Sequence[ObjectHead]]

    def __len__(self) -> int:
        return len(self.ids)


def page_of(rows: Sequence[HeadFields]) -> HeadPage:
    """A page of rows that arrived one by one."""
    count = len(rows)
    types, codes = dictionary_encode(list(map(_TYPE, rows)))
    return HeadPage(
        np.fromiter(map(_ID, rows), np.int64, count),
        np.fromiter(map(_CREATED_AT, rows), np.int64, count),
        types,
        codes,
        partial(_pick, rows),
    )


def whole_pages(heads: Iterable[HeadFields], rows: int) -> Iterator[HeadPage]:
    """Pages of about this many rows; no object spans two pages."""
    return map(page_of, whole_objects(heads, rows))


def whole_objects(heads: Iterable[HeadFields], rows: int) -> Iterator[list[HeadFields]]:
    """Lists of about this many rows; no object spans two lists."""
    heads = iter(heads)
    rest: list[HeadFields] = []
    while page := list(islice(heads, rows)):
        rest += page
        end = len(rest) - 1
        while end and rest[end - 1][0] == rest[end][0]:
            end -= 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def dictionary_encode(names: Sequence[str]) -> tuple[Sequence[str], Ids]:
    """Each distinct name once, and the index of every name among them."""
    codes: dict[str, int] = _Codes()
    codes_of_names = np.fromiter(map(codes.__getitem__, names), np.int64, len(names))
    return list(codes), codes_of_names


def _pick(rows: Sequence[HeadFields], positions: Iterable[int]) -> Sequence[ObjectHead]:
    return [ObjectHead._make(rows[position]) for position in positions]


class _Codes(dict[str, int]):
    def __missing__(self, name: str) -> Any:
        self[name] = code = len(self)
        return code


Ids: TypeAlias = npt.NDArray[np.int64]
