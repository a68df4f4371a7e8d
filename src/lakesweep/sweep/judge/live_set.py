"""Match stored files against the live set, exactly or through a Bloom filter, and judge them.

A Bloom filter never forgets a live file. It may take a dead one for live, which keeps that
file in this run; the next run has another salt and errs about other files.

Steps write their rows into parts of a dataset and return the names of these. They can be
pickled and may run twice: Spark takes one result of each, and parts that no result names are
ignored. `counts` is the folder for their progress (`runs.task_progress`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import FilterTooSmallError
from lakesweep.hashing.bloom_filter import BloomFill, BloomFilter, BloomShape, total_fill
from lakesweep.hashing.bloom_sizing import (
    BloomFigures,
    BloomFit,
    better_shape,
    bloom_figures,
    check_fill,
    expected_live,
    first_shape,
    largest_shape,
)
from lakesweep.runs.records import LAKE_HOME, REPOSITORY_HOME
from lakesweep.runs.task_progress import TaskCounter
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.writer import DatasetWriter
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.sweep.columns import VERDICTS, Batches, hashes_of, with_reference
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.judge.bloom_shards import (
    BloomShards,
    FillStep,
    StoredShard,
    read_shard,
    store_shard,
)
from lakesweep.sweep.judge.dangling_references import DanglingMatches
from lakesweep.sweep.judge.paimon_names import PaimonUsedNames
from lakesweep.sweep.judge.reasons import JudgeRules, judge
from lakesweep.sweep.judge.totals import TotalsSum, count_verdicts
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine

#: Up to this many live files are joined; beyond that, a filter is used.
MAX_EXACT = 20_000_000
#: This many homes of other lakes are looked at for locks and marks of restores.
MOST_HOMES = 1_000
_HOMES = f"/(?:{LAKE_HOME}|{REPOSITORY_HOME})"


class MatchMode(StrEnum):
    """How stored files are matched against live ones."""

    AUTO = "auto"
    EXACT = "exact"
    BLOOM = "bloom"


@dataclass(frozen=True)
class MatchResult:
    """The judge's results, and the figures of the filter, if there was one."""

    answers: pa.Table
    mode: MatchMode
    filter: BloomFigures | None = None


@dataclass(frozen=True)
class LiveSet:
    """The live files of a run: `content` are the marks, with duplicates.

    A filter of them has at most `max_bytes`.
    """

    stores: Stores
    engine: SweepEngine
    content: Dataset
    folder: str
    most_live: int
    max_bytes: int | None = None

    def judge(self, step: JudgeStep, listing: Dataset, mode: MatchMode) -> MatchResult:
        """Run a judge step over all listed files."""
        if mode is MatchMode.AUTO:
            mode = MatchMode.EXACT if self.content.rows <= MAX_EXACT else MatchMode.BLOOM
        if mode is MatchMode.EXACT:
            answers = self.engine.match(step, listing, self.content, TASK_RESULTS)
            return MatchResult(answers, mode)
        filters, figures = self.build()
        probe = ProbeStep(self.stores, filters, step)
        answers = self.engine.gather(probe, listing, TASK_RESULTS)
        remove_folder(self.stores, self.folder)
        return MatchResult(answers, mode, figures)

    def build(self) -> tuple[Sequence[StoredShard], BloomFigures]:
        """A filter with a low enough error rate; rebuilt larger if the first one is not.

        FilterTooSmallError if it would take more bytes than allowed.
        """
        capacity = expected_live(self.most_live, self.content.rows)
        # A new salt for every run, so that a file kept by a false positive is judged again by the
        # next one.
        shape = largest_shape(first_shape(capacity, secrets.randbits(128)), self.max_bytes)
        filters, fill = self._fill(shape)
        rebuilt = check_fill(fill, can_rebuild=True) is BloomFit.RESIZE
        if rebuilt:
            shape = better_shape(shape, fill, self.content.rows)
            self._check_size(shape)
            filters, fill = self._fill(shape)
        if check_fill(fill, can_rebuild=False) is not BloomFit.FITS:
            raise self._too_small(better_shape(shape, fill, self.content.rows))
        return filters, bloom_figures(shape, fill, rebuilt=rebuilt)

    def _check_size(self, shape: BloomShape) -> None:
        if self.max_bytes is not None and shape.size_bytes > self.max_bytes:
            raise self._too_small(shape)

    def _too_small(self, needed: BloomShape) -> FilterTooSmallError:
        """Why there is no plan.

        A filter that errs too often only errs towards keeping, but the totals would be wrong.
        """
        return FilterTooSmallError(
            f"the references of this lake need a filter of {needed.size_bytes:,} bytes, and"
            f" {self.max_bytes or 0:,} are allowed; nothing was planned",
            needed.size_bytes,
            hint=f"set filter_bytes = {needed.size_bytes} for the lake, or plan with --exact",
        )

    def _fill(self, shape: BloomShape) -> tuple[Sequence[StoredShard], BloomFill]:
        shards = [self._fill_shard(shape, shard) for shard in range(shape.shards)]
        return [stored for stored, _ in shards], total_fill(fill for _, fill in shards)

    def _fill_shard(self, shape: BloomShape, shard: int) -> tuple[StoredShard, BloomFill]:
        """One shard, merged from those that the tasks built from their rows."""
        step = FillStep(self.stores, f"{self.folder}/work", shape, shard)
        answers = self.engine.gather(step, self.content, TASK_RESULTS)
        whole = BloomFilter(shape, range(shard, shard + 1))
        for stored in results_of(answers, "filter", StoredShard):
            whole.merge(read_shard(self.stores, stored))
            place = parse(stored.path)
            self.stores.open(place).delete([place.key])
        place = parse(f"{self.folder}/{shape.capacity}-{shard}.bloom")
        return store_shard(self.stores, place, whole), whole.fill()


def figures_document(figures: BloomFigures | None) -> dict[str, object]:
    """The figures of a filter in a plan."""
    return {} if figures is None else dict(msgspec.to_builtins(figures))


def home_folders(paths: pa.Array) -> list[str]:
    """The folders of Lakesweep's own files among some paths, of any lake or repository."""
    own = paths.filter(pc.match_substring_regex(paths, _HOMES))
    found = pc.replace_substring_regex(own, rf"(?s)^(.*?{_HOMES}).*$", r"\1")
    return [str(home) for home in found.unique().to_pylist()]


@dataclass(frozen=True)
class JudgeStep:
    """Judges files (REFERENCED) into parts of two datasets of VERDICTS, and counts them.

    `doubts` are filters of files that dangling references may mean, `namesakes` of the names that
    Paimon tables use.
    """

    stores: Stores
    keep: str
    delete: str
    rules: JudgeRules
    counts: str | None = None
    doubts: Sequence[StoredShard] = ()
    namesakes: Sequence[StoredShard] = ()

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writers = {
            Verdict.KEEP: DatasetWriter(self.stores, self.keep, VERDICTS),
            Verdict.DELETE: DatasetWriter(self.stores, self.delete, VERDICTS),
        }
        totals = TotalsSum()
        homes: set[str] = set()
        counter = TaskCounter(self.stores, self.counts)
        rules = self._rules()
        for batch in batches:
            names = resolve_aliases(identities(batch["path"]))
            verdicts = judge(batch, names, batch["referenced"], rules)
            totals.add(count_verdicts(verdicts, names, rules))
            homes.update(home_folders(batch["path"]))
            for verdict, writer in writers.items():
                chosen = pc.equal(verdicts["verdict"], verdict.value)
                writer.add(verdicts.filter(chosen))
            counter.add(batch.num_rows)
        for verdict, writer in writers.items():
            yield task_result(verdict.value, writer.finish())
        yield task_result("total", totals.total().to_pylist())
        yield task_result("home", sorted(homes)[:MOST_HOMES])

    def _rules(self) -> JudgeRules:
        rules = self.rules
        if self.doubts:
            rules = replace(
                rules, doubts=DanglingMatches(BloomShards.load(self.stores, self.doubts))
            )
        if self.namesakes:
            rules = replace(
                rules, namesakes=PaimonUsedNames(BloomShards.load(self.stores, self.namesakes))
            )
        return rules


@dataclass(frozen=True)
class ProbeStep:
    """Looks listed files up in a filter, then judges them."""

    stores: Stores
    filters: Sequence[StoredShard]
    step: JudgeStep

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        known = BloomShards.load(self.stores, self.filters)
        return self.step(
            with_reference(batch, pa.array(known.contains(hashes_of(batch)))) for batch in batches
        )
