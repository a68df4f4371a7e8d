"""The kernel that gives each address its verdict, from the least rank and the latest clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lifecycle.columns import JUDGED, OCCURRENCES, Why
from lakesweep.lifecycle.keepers import Keeper
from lakesweep.lifecycle.occurring import distinct, micros_of
from lakesweep.lifecycle.policy import Rule
from lakesweep.lifecycle.ranks import Ranker, Ranks, are_due, days_of, reasons_of
from lakesweep.sweep.columns import HASHES

_DAY = 86_400_000_000
_WHYS = list(Why)
_WHY_TEXTS = pa.array([why.value for why in _WHYS])
_VERDICT_TEXTS = pa.array([why.verdict.value for why in _WHYS])

#: What is known of an address: all its occurrences together.
GATHERED = pa.schema(
    [*HASHES, *(OCCURRENCES.field(name) for name in ("address", "rank", "age", "size_bytes"))]
)


@dataclass(frozen=True)
class JudgeStep:
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
        by_age = np.where(are_due(ranks, ages), _WHYS.index(Why.EXPIRED), _WHYS.index(Why.NOT_DUE))
        fixed = reasons_of(ranks)
        return np.where(fixed >= 0, fixed, by_age)

    def _texts(
        self,
        ranks: Ranks,
        find: Callable[[int], Rule | None] | Callable[[int], Keeper | None],
        spell: Callable[..., str],
    ) -> pa.Array:
        """A text for each rank; there are few different ones."""
        few, places = distinct(ranks)
        found = [find(int(rank)) for rank in few]
        texts = [None if one is None else spell(one) for one in found]
        return pa.array(texts, pa.string()).take(pa.array(places))


#: How what occurrences say comes together.
_TOGETHER = {
    "address": "max",
    "rank": "min",
    "age": "max",
    "size_bytes": "max",
    "candidate": "any",
}


def are_alone(occurrences: pa.Table) -> pa.Array:
    """Which occurrences are the only one of their address.

    Most are, and need no grouping. Those of which another has half of the hash count as several.
    """
    halves = occurrences["h1"].to_numpy()
    order = np.argsort(halves)
    same = np.diff(halves[order]) == 0
    alone = np.ones(len(halves), np.bool_)
    alone[order[1:][same]] = False
    alone[order[:-1][same]] = False
    return pa.array(alone)


def may_go(occurrences: pa.Table) -> pa.ChunkedArray:
    """Which occurrences are of an address that may go."""
    return pc.and_(occurrences["candidate"], occurrences["address"].is_valid())


def gather(occurrences: pa.Table) -> pa.Table:
    """All that occurrences say of each address that may go, in one row (GATHERED)."""
    grouped = occurrences.group_by(HASHES.names).aggregate(list(_TOGETHER.items()))
    names = {f"{name}_{how}": name for name, how in _TOGETHER.items()}
    rows = grouped.rename_columns([names.get(name, name) for name in grouped.column_names])
    return rows.filter(may_go(rows)).select(GATHERED.names).cast(GATHERED)


def candidates_of(occurrences: pa.RecordBatch) -> pa.RecordBatch:
    """The addresses that may go, by their hashes."""
    return occurrences.filter(pc.field("candidate")).select(HASHES.names)
