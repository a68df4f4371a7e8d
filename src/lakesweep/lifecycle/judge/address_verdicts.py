"""Give each address its verdict: combine all its occurrences by lowest rank and latest time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lifecycle.columns import EXPIRED, JUDGED, OCCURRENCES, TOTALS
from lakesweep.lifecycle.judge.expired_addresses import MATCHED, ExpiredAddressStep
from lakesweep.lifecycle.judge.occurrences import distinct, micros_of
from lakesweep.lifecycle.judge.reasons import REASONS, Ranker, Ranks, are_due, days_of, reasons_of
from lakesweep.lifecycle.policy.ref_retention import RefKeeper
from lakesweep.lifecycle.policy.rules import LifecycleRule
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.sweep.columns import HASHES
from lakesweep.sweep.engine.protocol import results_of, task_result
from lakesweep.sweep.verdicts import Reason

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.storage.stores import Stores

_DAY = 86_400_000_000
_WHY_TEXTS = pa.array([why.value for why in REASONS])
_VERDICT_TEXTS = pa.array([why.verdict.value for why in REASONS])

#: What is known of an address: all its occurrences together.
GATHERED = pa.schema(
    [*HASHES, *(OCCURRENCES.field(name) for name in ("address", "rank", "age", "size_bytes"))]
)


@dataclass(frozen=True)
class AddressJudge:
    """Gives addresses (GATHERED) their verdicts (JUDGED). Can be pickled."""

    ranker: Ranker

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield self._judge(batch)

    def _judge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ranks = batch["rank"].to_numpy()
        before = days_of(ranks) * _DAY
        reasons = self._reasons(ranks, micros_of(batch["age"]))
        columns = {
            "verdict": _VERDICT_TEXTS.take(pa.array(reasons)),
            "reason": _WHY_TEXTS.take(pa.array(reasons)),
            "rule": self._texts(ranks, self.ranker.rule, lambda rule: rule.id),
            "modified": batch["age"],
            "due_before": pa.array(before, mask=reasons_of(ranks) >= 0).cast(batch["age"].type),
            "holder": self._texts(ranks, self.ranker.keeper, lambda keeper: keeper.words),
            "prefix": self._texts(ranks, self.ranker.rule, lambda rule: rule.prefix.text),
        }
        arrays = [columns[name] if name in columns else batch[name] for name in JUDGED.names]
        return pa.RecordBatch.from_arrays(arrays, schema=JUDGED)

    def _reasons(self, ranks: Ranks, ages: Ranks) -> Ranks:
        by_age = np.where(
            are_due(ranks, ages),
            REASONS.index(Reason.EXPIRED),
            REASONS.index(Reason.NOT_DUE),
        )
        fixed = reasons_of(ranks)
        return np.where(fixed >= 0, fixed, by_age)

    def _texts(
        self,
        ranks: Ranks,
        find: Callable[[int], LifecycleRule | None] | Callable[[int], RefKeeper | None],
        spell: Callable[..., str],
    ) -> pa.Array:
        """A string for each rank; few of them differ."""
        few, places = distinct(ranks)
        found = [find(int(rank)) for rank in few]
        texts = [None if one is None else spell(one) for one in found]
        return pa.array(texts, pa.string()).take(pa.array(places))


#: How the occurrences of an address are merged.
_TOGETHER = {
    "address": "max",
    "rank": "min",
    "age": "max",
    "size_bytes": "max",
    "candidate": "any",
}


def are_alone(occurrences: pa.Table) -> pa.Array:
    """Which occurrences are the only one of their address.

    Most are, and need no grouping. Occurrences that share half of the hash count as several.
    """
    halves = occurrences["h1"].to_numpy()
    order = np.argsort(halves)
    same = np.diff(halves[order]) == 0
    alone = np.ones(len(halves), np.bool_)
    alone[order[1:][same]] = False
    alone[order[:-1][same]] = False
    return pa.array(alone)


def may_go(occurrences: pa.Table) -> pa.ChunkedArray:
    """Which occurrences are of an address that may expire."""
    return pc.and_(occurrences["candidate"], occurrences["address"].is_valid())


def gather(occurrences: pa.Table) -> pa.Table:
    """All occurrences of each address that may expire, merged into one row (GATHERED)."""
    grouped = occurrences.group_by(HASHES.names).aggregate(list(_TOGETHER.items()))
    names = {f"{name}_{how}": name for name, how in _TOGETHER.items()}
    rows = grouped.rename_columns([names.get(name, name) for name in grouped.column_names])
    return rows.filter(may_go(rows)).select(GATHERED.names).cast(GATHERED)


def candidates_of(occurrences: pa.RecordBatch) -> pa.RecordBatch:
    """The addresses that may expire, by their hashes."""
    return occurrences.filter(pc.field("candidate")).select(HASHES.names)


_BY = TOTALS.names[:-2]


@dataclass(frozen=True)
class AddressVerdicts:
    """Verdicts (JUDGED), expired addresses (EXPIRED), waiting ones (HASHES), and TOTALS.

    An address waits if only staged entries keep it: no commit makes the next run examine it.
    """

    verdicts: Dataset
    results: Dataset
    waiting: Dataset
    totals: pa.Table


@dataclass(frozen=True)
class AddressVerdictStep:
    """Writes the verdicts on addresses; all occurrences of one come in one call.

    Returns the parts that it wrote, and totals. `verdicts`, `results` and `waiting` are the
    addresses of datasets. Can be pickled.
    """

    judge: AddressJudge
    match: ExpiredAddressStep
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
        staged = judged.select(HASHES.names).filter(pc.equal(judged["reason"], Reason.STAGED.value))
        yield self._write("verdicts", self.verdicts, JUDGED, judged)
        yield self._write("results", self.results, EXPIRED, self._match(judged, alone, several))
        yield self._write("waiting", self.waiting, HASHES, staged)
        yield task_result("totals", _total(judged, gathered["rank"]).to_pylist())

    def _match(self, judged: pa.Table, alone: pa.Table, several: pa.Table) -> pa.Table:
        """Results, from verdicts on lone occurrences, then on others."""
        verdicts = judged.select(MATCHED)
        goes = pc.equal(judged["reason"], Reason.EXPIRED.value)
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
        return task_result(name, writer.finish())

    def commit(self, stores: StoreOpener, answers: pa.Table) -> AddressVerdicts:
        """Commit everything that calls have written as datasets."""

        def committed(name: str, address: str, schema: pa.Schema) -> Dataset:
            return commit_dataset(stores, address, results_of(answers, name, Part), schema)

        verdicts = committed("verdicts", self.verdicts, JUDGED)
        results = committed("results", self.results, EXPIRED)
        totals = pa.Table.from_pylist(list(results_of(answers, "totals", dict)), TOTALS)
        waiting = committed("waiting", self.waiting, HASHES)
        return AddressVerdicts(verdicts, results, waiting, _sum(totals))


def _total(judged: pa.Table, ranks: pa.ChunkedArray) -> pa.Table:
    """Objects and bytes by verdict and its origin (TOTALS).

    Rows with the same rank and verdict have the same origin; numbers are faster to group.
    """
    goes = pc.equal(judged["verdict"], Reason.EXPIRED.verdict.value)
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
