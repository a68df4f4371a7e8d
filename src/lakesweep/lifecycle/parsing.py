"""The kernels that read metaranges and ranges into what is kept of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, MissingError, UnreadableError
from lakesweep.lakefs.addresses import METADATA, Namespace
from lakesweep.lakefs.ranges import decode_metarange, decode_range
from lakesweep.lifecycle.columns import EDGES, FOLDED, PARSED
from lakesweep.lifecycle.folding import READ, fold
from lakesweep.parallel import map_ordered
from lakesweep.storage.datasets import DatasetWriter
from lakesweep.sweep.answers import answer

if TYPE_CHECKING:
    from lakesweep.lakefs.repository import RangeFiles
    from lakesweep.storage.stores import Stores

_READERS = 4
#: A chunk has no more of either: that bounds memory, and how much can be told by bits.
_ENTRIES_IN_A_CHUNK = 1_000_000
_RANGES_IN_A_CHUNK = 256

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Source:
    """Where ranges and metaranges are read from. Can be pickled."""

    files: RangeFiles
    namespace: Namespace

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
            raise DamagedError(path, f"it has {found.num_rows} entries, its metarange says {count}")
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

    source: Source
    stores: Stores
    address: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, EDGES)
        ids = (id_ for batch in batches for id_ in batch["metarange_id"].to_pylist())
        for edges in map_ordered(self.source.metarange, ids, workers=_READERS):
            writer.add(edges)
        yield answer("edges", writer.finish())


@dataclass(frozen=True)
class ParseStep:
    """Reads ranges (EDGES) into parts of two datasets, of FOLDED and of PARSED.

    Ranges that come one after the other are folded together.
    """

    source: Source
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
        yield answer("entries", entries.finish())
        yield answer("ranges", ranges.finish())

    def _flush(self, chunk: _Chunk, entries: DatasetWriter, ranges: DatasetWriter) -> None:
        if chunk.ids:
            entries.add(fold(chunk.batches, self.source.namespace, chunk.number))
            ranges.add(chunk.parsed())


def _wanted(batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
    return zip(batch["range_id"].to_pylist(), batch["count"].to_pylist(), strict=True)


def _parse(source: Source, wanted: tuple[str, int]) -> tuple[str, pa.RecordBatch]:
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
