"""Folding: the entries of several ranges, each once.

A commit that changes one object writes a whole range again, so that neighbouring versions of a
range hold almost the same entries. They are parsed together and folded: an entry says by a bit for
each range which of them hold it. That is exact, and as small as what is distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import hash128, hash_order
from lakesweep.lakefs.addresses import Namespace, creation_times, may_be_deleted
from lakesweep.lakefs.columns import ENTRIES, AddressType
from lakesweep.lifecycle.columns import FOLDED, Standing
from lakesweep.storage.files import FIRST_TIME

Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_BITS = 64
_MOMENT = FOLDED.field("age").type
#: Any odd number: it keeps a path and an address apart that change places.
_ODD = np.uint64(0x9E3779B97F4A7C15)


def fold(ranges: Sequence[pa.RecordBatch], namespace: Namespace, chunk: int) -> pa.RecordBatch:
    """The entries (READ) of some ranges, as rows of FOLDED."""
    rows = pa.Table.from_batches(ranges, READ)
    rows = rows.combine_chunks()
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], FOLDED)
    places = np.repeat(np.arange(len(ranges)), [each.num_rows for each in ranges])
    order, starts = _groups(rows)
    firsts = np.minimum.reduceat(order, starts)
    # As they come, which is by their paths: what is alike is then close together, and small.
    told = np.argsort(firsts)
    texts = rows.select(["path", "address", "address_type"]).take(pa.array(firsts[told]))
    micros = _micros(rows["modified"])[order]
    sizes = rows["size_bytes"].to_numpy()[order]
    entries = _Distinct(
        members=_members(places[order], starts, len(ranges), told),
        paths=_one(texts["path"]),
        addresses=_one(texts["address"]),
        types=_one(texts["address_type"]),
        sizes=pa.array(np.maximum.reduceat(sizes, starts)[told]),
        latest=_moments(np.maximum.reduceat(micros, starts)[told]),
        earliest=_moments(np.minimum.reduceat(micros, starts)[told]),
    )
    return stand(entries, namespace, chunk)


#: What is folded of entries.
READ = pa.schema(
    [ENTRIES.field(name) for name in ("path", "address", "address_type", "size_bytes", "modified")]
)


@dataclass(frozen=True)
class _Distinct:
    """Entries, each once. `earliest` is null where one of them has no time."""

    members: pa.Array
    paths: pa.Array
    addresses: pa.Array
    types: pa.Array
    sizes: pa.Array
    latest: pa.Array
    earliest: pa.Array


def stand(entries: _Distinct, namespace: Namespace, chunk: int) -> pa.RecordBatch:
    """What entries say of keys below the namespace (FOLDED).

    What lies elsewhere says nothing. An address that is written in an odd way protects all that it
    may mean.
    """
    addresses, types = entries.addresses, entries.types
    own = may_be_deleted(addresses, types)
    keys = namespace.keys(addresses, types)
    columns = [
        pa.repeat(pa.scalar(chunk, pa.int64()), len(keys)),
        entries.members,
        entries.paths,
        keys,
        pc.if_else(own, _number(Standing.OWN), _NONE),
        entries.sizes,
        entries.latest,
        ages_of(entries.latest, entries.earliest, addresses),
    ]
    known = pa.RecordBatch.from_arrays(columns, names=FOLDED.names)
    inside = known.filter(pc.and_(pc.is_valid(keys), pc.not_equal(keys, "")))
    also = namespace.protected(addresses, types)[len(keys.drop_null()) :]
    return pa.concat_batches([inside.cast(FOLDED), _protecting(also, chunk)])


def _number(standing: int) -> pa.Scalar:
    return pa.scalar(standing, pa.int32())


_NONE = _number(Standing.PROTECTS)


def _protecting(keys: pa.Array, chunk: int) -> pa.RecordBatch:
    """Keys that somebody may mean, by no path of their own, in no range and of no age."""
    count = len(keys)
    columns = [
        pa.repeat(pa.scalar(chunk, pa.int64()), count),
        pa.repeat(pa.scalar(b"", pa.binary()), count),
        pa.repeat(pa.scalar(b"", pa.binary()), count),
        keys,
        pa.repeat(_NONE, count),
        pa.repeat(pa.scalar(0, pa.int64()), count),
        pa.nulls(count, _MOMENT),
        pa.nulls(count, _MOMENT),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FOLDED)


def ages_of(latest: pa.Array, earliest: pa.Array, addresses: pa.Array) -> pa.Array:
    """The latest clock of entries; null where one of them says what cannot be believed."""
    clocks = (each.cast(pa.int64()) for each in (latest, creation_times(addresses)))
    age = pc.max_element_wise(*clocks).cast(_MOMENT)
    believed = pc.greater_equal(earliest, pa.scalar(FIRST_TIME, _MOMENT))
    return pc.if_else(pc.fill_null(believed, fill_value=False), age, None)


def _groups(rows: pa.Table) -> tuple[Numbers, Numbers]:
    """The rows in an order in which equal ones are together, and where each group begins."""
    paths = hash128(_texts(rows["path"]))
    keys = hash128(_one(rows["address"]))
    full = pc.equal(rows["address_type"], AddressType.FULL).to_numpy().astype(np.uint64)
    low, high = (path * _ODD + key for path, key in zip(paths, keys, strict=True))
    low ^= full
    order = hash_order((low, high))
    changes = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
    return order, np.flatnonzero(np.concatenate([[True], changes]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts(paths: pa.ChunkedArray) -> pa.Array:
    """Bytes in the shape of texts, for hashing alone: they may be no texts."""
    found = _one(paths)
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers(), offset=found.offset)


def _members(places: Numbers, starts: Numbers, ranges: int, told: Numbers) -> pa.Array:
    """A bit for each range of a group's rows, which are together; `told` orders the groups."""
    bits = np.uint64(1) << (places % _BITS).astype(np.uint64)
    words = [
        np.bitwise_or.reduceat(np.where(places // _BITS == word, bits, np.uint64(0)), starts)
        for word in range((ranges + _BITS - 1) // _BITS)
    ]
    width = (ranges + 7) // 8
    data = np.stack(words, axis=1)[told].astype("<u8").view(np.uint8)[:, :width]
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(starts), [None, pa.py_buffer(np.ascontiguousarray(data))]
    )
    return fixed.cast(pa.binary())


_NEVER = np.iinfo(np.int64).min


def _micros(moments: pa.ChunkedArray) -> Numbers:
    numbers: Numbers = pc.fill_null(moments.cast(pa.int64()), _NEVER).to_numpy()
    return numbers


def _moments(micros: Numbers) -> pa.Array:
    return pa.array(micros, mask=micros == _NEVER).cast(_MOMENT)
