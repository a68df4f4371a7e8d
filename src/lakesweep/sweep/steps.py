"""The steps of a plan that touch every file, for any engine: rows in, few answers out.

Each step writes what it finds into parts of a dataset and tells their names. It can be pickled, and
may run twice: of each run Spark takes one answer, and parts that nobody names are litter. `counts`
is the folder where it tells how far it has come (see `counting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing.bloom import BloomFilter, BloomShape
from lakesweep.hashing.bloom_file import dump_bloom
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets import DatasetWriter, new_part_name
from lakesweep.storage.file_hashes import file_hashes, hash_columns
from lakesweep.storage.inventory_rows import read_part
from lakesweep.storage.local.aliases import resolve
from lakesweep.storage.pieces import Piece, list_pieces
from lakesweep.sweep.answers import answer
from lakesweep.sweep.columns import LISTING, VERDICTS, hashes_of
from lakesweep.sweep.counting import Counter
from lakesweep.sweep.doubts import Doubts
from lakesweep.sweep.filters import Filters
from lakesweep.sweep.formats import Signs
from lakesweep.sweep.judging import Rules, judge
from lakesweep.sweep.namings import Namesakes
from lakesweep.sweep.totals import Sum, tally
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.storage.inventory import Part as InventoryPart
    from lakesweep.storage.stores import Stores

#: LISTING, and whether a root references the file.
REFERENCED = pa.schema([*LISTING, pa.field("referenced", pa.bool_(), nullable=False)])

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class ListStep:
    """Lists pieces of locations into parts of a dataset of LISTING."""

    stores: Stores
    address: str
    workers: int = 8
    counts: str | None = None

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, LISTING)
        counter = Counter(self.stores, self.counts)
        signs = Signs()
        for batch in list_pieces(self.stores, pieces, workers=self.workers):
            writer.add(listed(batch))
            signs.add(batch["path"])
            counter.add(batch.num_rows)
        yield answer("part", writer.finish())
        yield answer("sign", signs.found())


@dataclass(frozen=True)
class InventoryStep:
    """Reads a data file of an inventory into parts of a dataset of LISTING.

    What the inventory has of other places than the locations is left out.
    """

    stores: Stores
    address: str
    locations: Sequence[str]
    counts: str | None = None

    def __call__(self, part: InventoryPart) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, LISTING)
        counter = Counter(self.stores, self.counts)
        signs = Signs()
        for batch in read_part(self.stores, part, self.locations):
            writer.add(listed(batch))
            signs.add(batch["path"])
            counter.add(batch.num_rows)
        yield answer("part", writer.finish())
        yield answer("sign", signs.found())


def listed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Files (FILE_SCHEMA) as rows of LISTING."""
    columns = [batch[name] for name in ("path", "size_bytes", "modified", "etag")]
    return pa.RecordBatch.from_arrays(
        [*columns, *hash_columns(file_hashes(batch["path"]))], schema=LISTING
    )


@dataclass(frozen=True)
class JudgeStep:
    """Judges files (REFERENCED) into parts of two datasets of VERDICTS, and counts them.

    `doubts` are filters of what references that lead nowhere may mean, `namesakes` of the names
    that Paimon tables use.
    """

    stores: Stores
    keep: str
    delete: str
    rules: Rules
    counts: str | None = None
    doubts: Sequence[str] = ()
    namesakes: Sequence[str] = ()

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writers = {
            Verdict.KEEP: DatasetWriter(self.stores, self.keep, VERDICTS),
            Verdict.DELETE: DatasetWriter(self.stores, self.delete, VERDICTS),
        }
        totals = Sum()
        counter = Counter(self.stores, self.counts)
        rules = self._rules()
        for batch in batches:
            names = resolve(identities(batch["path"]))
            verdicts = judge(batch, names, batch["referenced"], rules)
            totals.add(tally(verdicts, names, rules))
            for verdict, writer in writers.items():
                chosen = pc.equal(verdicts["verdict"], verdict.value)
                writer.add(verdicts.filter(chosen))
            counter.add(batch.num_rows)
        for verdict, writer in writers.items():
            yield answer(verdict.value, writer.finish())
        yield answer("total", totals.total().to_pylist())

    def _rules(self) -> Rules:
        rules = self.rules
        if self.doubts:
            rules = replace(rules, doubts=Doubts(Filters.load(self.stores, self.doubts)))
        if self.namesakes:
            rules = replace(rules, namesakes=Namesakes(Filters.load(self.stores, self.namesakes)))
        return rules


@dataclass(frozen=True)
class FillStep:
    """Adds live files to a new filter, or one shard of it, and stores that in a folder."""

    stores: Stores
    folder: str
    shape: BloomShape
    shard: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        bloom = BloomFilter(self.shape, range(self.shard, self.shard + 1))
        for batch in batches:
            low, high = hashes_of(batch)
            here = self.shape.shards_of((low, high)) == self.shard
            bloom.add((low[here], high[here]))
        place = parse(f"{self.folder.rstrip('/')}/{new_part_name()}.bloom")
        self.stores.open(place).write(place.key, dump_bloom(bloom))
        yield answer("filter", [place.path])


@dataclass(frozen=True)
class ProbeStep:
    """Tells of listed files whether a filter knows them, then judges them."""

    stores: Stores
    filters: Sequence[str]
    step: JudgeStep

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        known = Filters.load(self.stores, self.filters)
        return self.step(
            with_reference(batch, pa.array(known.contains(hashes_of(batch)))) for batch in batches
        )


def with_reference(batch: pa.RecordBatch, referenced: pa.Array) -> pa.RecordBatch:
    """Rows of LISTING as REFERENCED."""
    return pa.RecordBatch.from_arrays([*batch.columns, referenced], schema=REFERENCED)
