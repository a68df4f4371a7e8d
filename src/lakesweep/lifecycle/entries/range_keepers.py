"""Which refs keep each cached range, in the form in which tasks look it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import IncompleteError
from lakesweep.lifecycle.columns import HELD, METARANGES, PARSED, PLACED
from lakesweep.lifecycle.policy.ref_retention import pack_bits, unpack_bits
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.engine.tasks import RowSplit, read_split

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: The keepers of the ranges of chunks, by their places, as bits of numbers.
RangeKeepers: TypeAlias = Mapping[int, Mapping[int, int]]


#: A kernel over entries that has to know what keeps their ranges.
PlacedStep: TypeAlias = Callable[[Iterable[pa.RecordBatch], RangeKeepers], Iterator[pa.RecordBatch]]

_READ = ["chunk", "members", "path", "address", "standing", "size_bytes", "age"]


def metarange_rows(bits: Mapping[str, int], count: int) -> Iterator[pa.RecordBatch]:
    """The keepers of metaranges, as rows of METARANGES; `count` is the number of bits."""
    columns = [pa.array(bits), pa.array([pack_bits(each, count) for each in bits.values()])]
    yield pa.RecordBatch.from_arrays(columns, schema=METARANGES)


def keep_ranges(batches: Iterable[pa.RecordBatch], metaranges: pa.Table) -> pa.Table:
    """The keepers of the ranges of metaranges (EDGES): rows of HELD, each once."""
    found = [_keep_ranges(batch, metaranges) for batch in batches]
    rows = pa.concat_tables([_KEPT.empty_table(), *found]).group_by(_KEPT.names).aggregate([])
    return _held_rows(rows)


def _keep_ranges(edges: pa.RecordBatch, metaranges: pa.Table) -> pa.Table:
    places = pc.index_in(edges["metarange_id"], value_set=metaranges["metarange_id"])
    known = places.is_valid()
    keepers = metaranges["keepers"].take(places.filter(known))
    rows = pa.table([edges["range_id"].filter(known), keepers], schema=_KEPT)
    return rows.group_by(_KEPT.names).aggregate([])


def find_ranges(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Where the entries of parsed ranges (PARSED) are, as rows of HELD."""
    found = pa.Table.from_batches((batch.select(_WHERE.names) for batch in batches), _WHERE)
    return _held_rows(found)


def _held_rows(rows: pa.Table) -> pa.Table:
    """Rows of HELD with some known columns."""
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in HELD
    ]
    return pa.table(columns, schema=HELD)


_KEPT = pa.schema([HELD.field("range_id"), HELD.field("keepers")])
_WHERE = pa.schema([PARSED.field(name) for name in ("range_id", "chunk", "place")])


def place_ranges(held: pa.Table) -> Iterator[pa.RecordBatch]:
    """Everything known about some ranges (HELD), as rows of PLACED.

    IncompleteError for a range in no chunk: its contents would not be protected.
    """
    kept = held.filter(pc.field("keepers").is_valid()).select(_KEPT.names)
    where = held.filter(pc.field("chunk").is_valid()).select(_WHERE.names)
    placed = kept.join(where, "range_id", join_type="left outer").group_by(_WHERE.names)
    merged = placed.aggregate([("keepers", "distinct")]).combine_chunks()
    for batch in merged.to_batches():
        yield _merge_keepers(batch)


def _merge_keepers(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch["chunk"].null_count:
        missing = batch.filter(batch["chunk"].is_null())["range_id"][0]
        raise IncompleteError(f"range {missing} was not parsed, so its contents are unknown")
    merged = [_merge(each) for each in batch["keepers_distinct"].to_pylist()]
    columns = [batch["chunk"], batch["place"], pa.array(merged, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PLACED)


def _merge(keepers: Iterable[bytes]) -> bytes:
    bits, width = 0, 0
    for each in keepers:
        bits |= unpack_bits(each)
        width = len(each)
    return bits.to_bytes(width, "little")


def load_placed(stores: StoreOpener, placed: Dataset) -> RangeKeepers:
    """The keepers of all ranges, by chunk and place; about 200 bytes per range."""
    found: dict[int, dict[int, int]] = {}
    for batch in read_dataset(stores, placed):
        for row in batch.to_pylist():
            found.setdefault(row["chunk"], {})[row["place"]] = unpack_bits(row["keepers"])
    return found


#: What the last task of this process loaded; the next one usually needs it too.
_last: list[tuple[str, RangeKeepers]] = []


def _held(stores: StoreOpener, placed: Dataset) -> RangeKeepers:
    if not _last or _last[0][0] != placed.sha256:
        _last[:] = [(placed.sha256, load_placed(stores, placed))]
    return _last[0][1]


def read_placed(
    stores: StoreOpener, entries: Dataset, share: RowSplit, step: PlacedStep, placed: Dataset
) -> Iterator[pa.RecordBatch]:
    """The results of a step for a share of the cached entries (FOLDED)."""
    keepers = _held(stores, placed)
    return step(read_split(stores, entries, share, _READ), keepers)
