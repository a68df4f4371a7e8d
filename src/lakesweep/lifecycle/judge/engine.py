"""The engine of a lifecycle run: in this process or on Spark, with the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import HashSet
from lakesweep.lifecycle.columns import EDGES, METARANGES, PARSED, PLACED
from lakesweep.lifecycle.entries.cache import (
    Segment,
    find_ranges,
    keep_ranges,
    place_ranges,
    read_placed,
)
from lakesweep.lifecycle.judge.address_verdicts import candidates_of
from lakesweep.lifecycle.judge.occurrences import (
    OccurrenceStep,
    again_occurrences,
    staged_occurrences,
)
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.sweep.columns import hashes_of
from lakesweep.sweep.engine.protocol import TASK_RESULTS, split_rows

if TYPE_CHECKING:
    from lakesweep.lifecycle.entries.reader import EdgeStep, ParseStep
    from lakesweep.lifecycle.judge.address_verdicts import AddressVerdicts, AddressVerdictStep
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class JudgeInput:
    """What is judged: entries of segments, the keepers of their ranges, and staged entries.

    `again` are addresses (HASHES) that are examined even if nothing about them is new.
    """

    segments: Sequence[Segment]
    placed: Dataset
    staged: Dataset | None
    again: Dataset | None
    occur: OccurrenceStep


class LifecycleEngine(Protocol):
    """Runs the steps of a lifecycle run. What it returns to the caller is small."""

    @property
    def name(self) -> str:
        """The name of the engine in records."""
        ...

    @property
    def stores(self) -> Stores: ...

    def read_edges(self, step: EdgeStep, metaranges: Dataset) -> pa.Table:
        """The results of the step for metaranges (a column `metarange_id`)."""
        ...

    def parse(self, step: ParseStep, edges: Dataset, parsed: Sequence[Dataset]) -> pa.Table:
        """The results of the step for the ranges (EDGES) that were not parsed before (PARSED).

        Each range comes to one call, next to those that begin with the same keys.
        """
        ...

    def place(self, segments: Sequence[Segment], metaranges: Dataset, address: str) -> Dataset:
        """The ranges of metaranges (METARANGES) with their keepers, as a dataset of PLACED.

        IncompleteError if one of them was not parsed.
        """
        ...

    def weigh(self, question: JudgeInput, step: AddressVerdictStep) -> AddressVerdicts:
        """The results of the step for all occurrences of addresses that may expire."""
        ...


@dataclass(frozen=True)
class LocalLifecycleEngine:
    """Runs in this process; memory grows with the ranges and the candidates."""

    stores: Stores
    name: str = "local"

    def read_edges(self, step: EdgeStep, metaranges: Dataset) -> pa.Table:
        return pa.Table.from_batches(step(read_dataset(self.stores, metaranges)), TASK_RESULTS)

    def parse(self, step: ParseStep, edges: Dataset, parsed: Sequence[Dataset]) -> pa.Table:
        found = self._table([edges], EDGES).select(["range_id", "min_key", "count"])
        known = self._table(parsed, PARSED)["range_id"].combine_chunks()
        once = found.group_by("range_id").aggregate([("min_key", "min"), ("count", "max")])
        new = once.filter(pc.invert(pc.is_in(once["range_id"], value_set=known)))
        ordered = new.sort_by([("min_key_min", "ascending"), ("range_id", "ascending")])
        renamed = ordered.rename_columns({"min_key_min": "min_key", "count_max": "count"})
        return pa.Table.from_batches(step(renamed.to_batches()), TASK_RESULTS)

    def place(self, segments: Sequence[Segment], metaranges: Dataset, address: str) -> Dataset:
        keepers = self._table([metaranges], METARANGES)
        kept = keep_ranges(self._rows(each.edges for each in segments), keepers)
        where = find_ranges(self._rows(each.ranges for each in segments))
        rows = place_ranges(pa.concat_tables([kept, where]))
        return write_dataset(self.stores, address, PLACED, rows)

    def weigh(self, question: JudgeInput, step: AddressVerdictStep) -> AddressVerdicts:
        chosen = HashSet()
        for batch in self._occurrences(question):
            chosen.add(hashes_of(candidates_of(batch)))
        found = (
            batch.filter(pa.array(chosen.contains(hashes_of(batch))))
            for batch in self._occurrences(question)
        )
        return step.commit(self.stores, pa.Table.from_batches(step(found), TASK_RESULTS))

    def _occurrences(self, question: JudgeInput) -> Iterator[pa.RecordBatch]:
        for segment in question.segments:
            for share in split_rows(segment.entries, 1):
                yield from read_placed(
                    self.stores, segment.entries, share, question.occur, question.placed
                )
        if question.staged is not None:
            staged = read_dataset(self.stores, question.staged)
            yield from staged_occurrences(staged, question.occur.namespace)
        if question.again is not None:
            yield from again_occurrences(read_dataset(self.stores, question.again))

    def _table(self, datasets: Iterable[Dataset], schema: pa.Schema) -> pa.Table:
        return pa.Table.from_batches(self._rows(datasets), schema).combine_chunks()

    def _rows(self, datasets: Iterable[Dataset]) -> Iterator[pa.RecordBatch]:
        for each in datasets:
            yield from read_dataset(self.stores, each)
