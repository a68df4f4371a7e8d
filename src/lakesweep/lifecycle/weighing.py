"""Weighing: all that is said of some addresses, together, into verdicts and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lifecycle.columns import JUDGED, OCCURRENCES, RESULTS, TOTALS, Why
from lakesweep.lifecycle.judging import GATHERED, JudgeStep, are_alone, gather, may_go
from lakesweep.lifecycle.results import MATCHED, MatchStep
from lakesweep.storage.datasets import Dataset, DatasetWriter, Part, commit_dataset
from lakesweep.sweep.answers import answer, answers_of
from lakesweep.sweep.columns import HASHES

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener
    from lakesweep.storage.stores import Stores

_BY = TOTALS.names[:-2]


@dataclass(frozen=True)
class Weighed:
    """Verdicts (JUDGED), results (RESULTS), and what waits (HASHES); how many there are (TOTALS).

    What waits is kept by what is staged alone: no commit tells the next run to look at it.
    """

    verdicts: Dataset
    results: Dataset
    waiting: Dataset
    totals: pa.Table


@dataclass(frozen=True)
class WeighStep:
    """Writes what becomes of addresses, of which all occurrences come in one call.

    It answers the parts that it wrote, and totals. `verdicts`, `results` and `waiting` are the
    addresses of datasets. Can be pickled.
    """

    judge: JudgeStep
    match: MatchStep
    stores: Stores
    verdicts: str
    results: str
    waiting: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        occurrences = pa.Table.from_batches(batches, OCCURRENCES)
        is_alone = are_alone(occurrences)
        alone = occurrences.filter(pc.and_(is_alone, may_go(occurrences)))
        several = occurrences.filter(pc.invert(is_alone))
        gathered = pa.concat_tables([alone.select(GATHERED.names), gather(several)])
        gathered = gathered.combine_chunks()
        judged = pa.Table.from_batches(self.judge(gathered.to_batches()), JUDGED)
        staged = judged.select(HASHES.names).filter(pc.equal(judged["reason"], Why.STAGED.value))
        yield self._write("verdicts", self.verdicts, JUDGED, judged)
        yield self._write("results", self.results, RESULTS, self._match(judged, alone, several))
        yield self._write("waiting", self.waiting, HASHES, staged)
        yield answer("totals", _total(judged, gathered["rank"]).to_pylist())

    def _match(self, judged: pa.Table, alone: pa.Table, several: pa.Table) -> pa.Table:
        """Results, from verdicts on occurrences that are alone, and then on others."""
        verdicts = judged.select(MATCHED)
        goes = pc.equal(judged["reason"], Why.EXPIRED.value)
        count = alone.num_rows
        here = goes.slice(0, count)
        return pa.concat_tables(
            [
                self.match.alone(verdicts.slice(0, count).filter(here), alone.filter(here)),
                self.match(verdicts.slice(count).filter(goes.slice(count)), several),
            ]
        )

    def _write(self, name: str, address: str, schema: pa.Schema, rows: pa.Table) -> pa.RecordBatch:
        writer = DatasetWriter(self.stores, address, schema)
        for batch in rows.to_batches():
            writer.add(batch)
        return answer(name, writer.finish())

    def commit(self, stores: StoreOpener, answers: pa.Table) -> Weighed:
        """Make all that calls have written datasets."""

        def committed(name: str, address: str, schema: pa.Schema) -> Dataset:
            return commit_dataset(stores, address, answers_of(answers, name, Part), schema)

        verdicts = committed("verdicts", self.verdicts, JUDGED)
        results = committed("results", self.results, RESULTS)
        totals = pa.Table.from_pylist(list(answers_of(answers, "totals", dict)), TOTALS)
        waiting = committed("waiting", self.waiting, HASHES)
        return Weighed(verdicts, results, waiting, _sum(totals))


def _total(judged: pa.Table, ranks: pa.ChunkedArray) -> pa.Table:
    """How many objects and bytes have each verdict, by what it comes from (TOTALS).

    All that have a rank and a verdict in common come from the same; numbers are grouped faster.
    """
    goes = pc.equal(judged["verdict"], Why.EXPIRED.verdict.value)
    rows = pa.table(
        {
            "rank": ranks,
            "goes": goes,
            "example": np.arange(judged.num_rows),
            "bytes": pc.fill_null(judged["size_bytes"], 0),
        }
    )
    found = rows.group_by(["rank", "goes"]).aggregate(
        [("example", "min"), ("example", "count"), ("bytes", "sum")]
    )
    named = judged.select(_BY).take(found["example_min"])
    counted = named.append_column("objects", found["example_count"])
    return _sum(counted.append_column("bytes", found["bytes_sum"]))


def _sum(rows: pa.Table) -> pa.Table:
    found = rows.group_by(_BY).aggregate([("objects", "sum"), ("bytes", "sum")])
    renamed = found.rename_columns({"objects_sum": "objects", "bytes_sum": "bytes"})
    return renamed.select(TOTALS.names).cast(TOTALS)
