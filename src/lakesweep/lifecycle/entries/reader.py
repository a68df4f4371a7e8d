"""Read metaranges and ranges into edges and deduplicated entries.

A commit that changes one object rewrites a whole range, so neighbouring versions of a range hold
almost the same entries. They are parsed together, and each distinct entry has a bit for each range
that holds it. This is exact, and as small as the distinct entries.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, MissingError, UnreadableError
from lakesweep.hashing import hash128, hash_order
from lakesweep.lakefs.addresses import METADATA, StorageNamespace, creation_times, may_be_deleted
from lakesweep.lakefs.columns import ENTRIES, AddressType
from lakesweep.lakefs.ranges.reader import decode_metarange, decode_range
from lakesweep.lifecycle.columns import EDGES, FOLDED, PARSED, Standing
from lakesweep.parallel import map_ordered
from lakesweep.storage.datasets.writer import DatasetWriter
from lakesweep.storage.file_batches import FIRST_TIME
from lakesweep.sweep.engine.protocol import task_result

if TYPE_CHECKING:
    from lakesweep.lakefs.ranges.reader import RangeFiles
    from lakesweep.storage.stores import Stores

_READERS = 4
#: The limits of a chunk, which bound memory and the number of bits.
_ENTRIES_IN_A_CHUNK = 1_000_000
_RANGES_IN_A_CHUNK = 256

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class RangeSource:
    """Where ranges and metaranges are read from. Can be pickled."""

    files: RangeFiles
    namespace: StorageNamespace

    def metarange(self, metarange_id: str) -> pa.RecordBatch:
        """The ranges of a metarange (EDGES)."""
        path, data = self._read(metarange_id, meta=True)
        found = decode_metarange(path, data, metarange_id)
        names = pa.repeat(pa.scalar(metarange_id, pa.string()), found.num_rows)
        columns = [names, *(found[name] for name in EDGES.names[1:])]
        return pa.RecordBatch.from_arrays(columns, schema=EDGES)

    def range(self, range_id: str, count: int) -> pa.RecordBatch:
        """The entries of a range (READ), as many as its metarange says."""
        path, data = self._read(range_id, meta=False)
        found = decode_range(path, data, range_id, READ)
        if found.num_rows != count:
            raise DamagedError(
                path, f"it has {found.num_rows} entries, but its metarange says {count}"
            )
        return found

    def _read(self, id_: str, *, meta: bool) -> tuple[str, bytes]:
        path = self.namespace.address(METADATA + id_)
        try:
            return path, self.files.read(id_, meta=meta)
        except MissingError as error:
            raise UnreadableError(path, "missing", "a commit needs it") from error


@dataclass(frozen=True)
class EdgeStep:
    """Reads metaranges (a column `metarange_id`) into parts of a dataset of EDGES."""

    source: RangeSource
    stores: Stores
    address: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, EDGES)
        ids = (id_ for batch in batches for id_ in batch["metarange_id"].to_pylist())
        for edges in map_ordered(self.source.metarange, ids, workers=_READERS):
            writer.add(edges)
        yield task_result("edges", writer.finish())


@dataclass(frozen=True)
class ParseStep:
    """Reads ranges (EDGES) into parts of two datasets, FOLDED and PARSED.

    Consecutive ranges are folded together.
    """

    source: RangeSource
    stores: Stores
    entries: str
    ranges: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        entries = DatasetWriter(self.stores, self.entries, FOLDED)
        ranges = DatasetWriter(self.stores, self.ranges, PARSED)
        wanted = (pair for batch in batches for pair in _wanted(batch))
        chunk = _Chunk()
        for range_id, parsed in map_ordered(partial(_parse, self.source), wanted, workers=_READERS):
            if chunk.is_full(parsed):
                self._flush(chunk, entries, ranges)
                chunk = _Chunk()
            chunk.add(range_id, parsed)
        self._flush(chunk, entries, ranges)
        yield task_result("entries", entries.finish())
        yield task_result("ranges", ranges.finish())

    def _flush(self, chunk: _Chunk, entries: DatasetWriter, ranges: DatasetWriter) -> None:
        if chunk.ids:
            entries.add(fold(chunk.batches, self.source.namespace, chunk.number))
            ranges.add(chunk.parsed())


def _wanted(batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
    return zip(batch["range_id"].to_pylist(), batch["count"].to_pylist(), strict=True)


def _parse(source: RangeSource, wanted: tuple[str, int]) -> tuple[str, pa.RecordBatch]:
    range_id, count = wanted
    return range_id, source.range(range_id, count)


@dataclass
class _Chunk:
    """Ranges that are folded together."""

    number: int = field(default_factory=lambda: secrets.randbits(63))
    ids: list[str] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    entries: int = 0

    def is_full(self, batch: pa.RecordBatch) -> bool:
        too_many = self.entries + batch.num_rows > _ENTRIES_IN_A_CHUNK
        return bool(self.ids) and (too_many or len(self.ids) == _RANGES_IN_A_CHUNK)

    def add(self, range_id: str, batch: pa.RecordBatch) -> None:
        self.ids.append(range_id)
        self.batches.append(batch)
        self.entries += batch.num_rows

    def parsed(self) -> pa.RecordBatch:
        rows = [
            {
                "range_id": range_id,
                "chunk": self.number,
                "place": place,
                "entries": batch.num_rows,
                "size_bytes": pc.sum(batch["size_bytes"], min_count=0).as_py(),
            }
            for place, (range_id, batch) in enumerate(zip(self.ids, self.batches, strict=True))
        ]
        return pa.RecordBatch.from_pylist(rows, schema=PARSED)


Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_BITS = 64
_MOMENT = FOLDED.field("age").type
#: Any odd number, so that swapping path and address changes the hash.
_ODD = np.uint64(0x9E3779B97F4A7C15)


def fold(
    ranges: Sequence[pa.RecordBatch], namespace: StorageNamespace, chunk: int
) -> pa.RecordBatch:
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
    """Distinct entries. `earliest` is null if one of them has no time."""

    members: pa.Array
    paths: pa.Array
    addresses: pa.Array
    types: pa.Array
    sizes: pa.Array
    latest: pa.Array
    earliest: pa.Array


def stand(entries: _Distinct, namespace: StorageNamespace, chunk: int) -> pa.RecordBatch:
    """What entries mean for keys in the namespace (FOLDED). Entries elsewhere mean nothing.

    An ambiguous address protects everything that it may mean.
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
    """Keys that an address may mean, without a path, a range or an age."""
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
    """The latest time of entries; null if one of them is implausible."""
    clocks = (each.cast(pa.int64()) for each in (latest, creation_times(addresses)))
    age = pc.max_element_wise(*clocks).cast(_MOMENT)
    believed = pc.greater_equal(earliest, pa.scalar(FIRST_TIME, _MOMENT))
    return pc.if_else(pc.fill_null(believed, fill_value=False), age, None)


def _groups(rows: pa.Table) -> tuple[Numbers, Numbers]:
    """The rows in an order in which equal ones are adjacent, and where each group begins."""
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
    """Bytes typed as text, for hashing only: they may not be valid text."""
    found = _one(paths)
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers(), offset=found.offset)


def _members(places: Numbers, starts: Numbers, ranges: int, told: Numbers) -> pa.Array:
    """A bit for each range of a group's adjacent rows; `told` orders the groups."""
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
