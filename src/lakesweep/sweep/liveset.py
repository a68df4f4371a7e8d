"""Matching what is stored against what is live: exactly, or through a Bloom filter.

A filter never forgets a live file. It may take a dead one for live, which keeps it for this run;
the next run has another salt, so it errs about others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from lakesweep.errors import RefusedError
from lakesweep.hashing.bloom import BloomFill, BloomFilter, BloomShape, total_fill
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.storage.address import parse
from lakesweep.storage.datasets import Dataset
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.sizing import (
    FilterFigures,
    Fit,
    better_shape,
    check_fill,
    expected_live,
    figures_of,
    first_shape,
)
from lakesweep.sweep.steps import FillStep, JudgeStep, ProbeStep
from lakesweep.sweep.tidying import remove_folder

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine

#: Up to so many live files are joined; beyond that a filter goes first.
MOST_EXACT = 20_000_000


class Mode(StrEnum):
    """How stored files are matched against live ones."""

    AUTO = "auto"
    EXACT = "exact"
    BLOOM = "bloom"


@dataclass(frozen=True)
class Matched:
    """What the judge said, and the figures of the filter where there was one."""

    answers: pa.Table
    mode: Mode
    filter: FilterFigures | None = None


@dataclass(frozen=True)
class LiveSet:
    """The live files of a run: `content` are the marks, with repetitions."""

    stores: Stores
    engine: SweepEngine
    content: Dataset
    folder: str
    most_live: int

    def judge(self, step: JudgeStep, listing: Dataset, mode: Mode) -> Matched:
        """Let a step judge all listed files."""
        if mode is Mode.AUTO:
            mode = Mode.EXACT if self.content.rows <= MOST_EXACT else Mode.BLOOM
        if mode is Mode.EXACT:
            answers = self.engine.match(step, listing, self.content, ANSWERS)
            return Matched(answers, mode)
        filters, figures = self.build()
        probe = ProbeStep(self.stores, filters, step)
        answers = self.engine.gather(probe, listing, ANSWERS)
        remove_folder(self.stores, self.folder)
        return Matched(answers, mode, figures)

    def build(self) -> tuple[Sequence[str], FilterFigures]:
        """A filter that errs rarely enough; built again, larger, where the first one does not."""
        capacity = expected_live(self.most_live, self.content.rows)
        shape = first_shape(capacity, secrets.randbits(128))
        filters, fill = self._fill(shape)
        rebuilt = check_fill(fill, can_rebuild=True) is Fit.RESIZE
        if rebuilt:
            shape = better_shape(shape, fill, self.content.rows)
            filters, fill = self._fill(shape)
        if check_fill(fill, can_rebuild=False) is not Fit.FITS:
            raise RefusedError(
                "filter",
                f"the filter errs {fill.expected_fpp:.1e} of the time, which is too often",
                hint="run it again: the next filter is sized by what was seen",
            )
        return filters, figures_of(shape, fill, rebuilt=rebuilt)

    def _fill(self, shape: BloomShape) -> tuple[Sequence[str], BloomFill]:
        shards = [self._fill_shard(shape, shard) for shard in range(shape.shards)]
        return [path for path, _ in shards], total_fill(fill for _, fill in shards)

    def _fill_shard(self, shape: BloomShape, shard: int) -> tuple[str, BloomFill]:
        """One shard, merged of those that the tasks made of their rows."""
        step = FillStep(self.stores, f"{self.folder}/work", shape, shard)
        answers = self.engine.gather(step, self.content, ANSWERS)
        whole = BloomFilter(shape, range(shard, shard + 1))
        for path in answers_of(answers, "filter", str):
            place = parse(path)
            whole.merge(load_bloom(path, self.stores.open(place).read(place.key)))
            self.stores.open(place).delete([place.key])
        place = parse(f"{self.folder}/{shape.capacity}-{shard}.bloom")
        self.stores.open(place).write(place.key, dump_bloom(whole))
        return place.path, whole.fill()


def figures_document(figures: FilterFigures | None) -> dict[str, object]:
    """What a plan shows of its filter."""
    return {} if figures is None else dict(msgspec.to_builtins(figures))
