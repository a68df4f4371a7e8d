"""Check a lake: find files that are referenced but missing, before a reader does.

Lakes are written to while they are checked. A file created since the listing is found when it
is looked up again. A file removed since, together with the snapshot that named it, is not; so
a table that lacks files and has moved is marked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import (
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UsageError,
)
from lakesweep.hashing import HashSet
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.sweep.columns import MISSING, hashes_of
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.judge.bloom_shards import BloomShards, StoredShard
from lakesweep.sweep.judge.dangling_search import RootNeeds, SubsetFilters, location_map, root_needs
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.survey import LakeSurvey, files_of
from lakesweep.sweep.paths.folder_map import FolderMap
from lakesweep.sweep.roots.root import RootRow, RootSource, collect_roots
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks

#: Tables that change meanwhile are marked again this often.
_LOOKS = 3
#: This many files that could not be looked up are named.
MOST_REFUSALS = 20


@dataclass(frozen=True)
class CheckResult:
    """What a check found. `missing` has a row per file and table; `files` counts each file once.

    `outside` counts referenced files outside of the lake's locations, which were not checked.
    `refused` counts those that the store would not look up, such as keys that it takes for
    invalid; the first of them are named.
    """

    marks: Marks
    missing: Dataset
    files: int
    outside: int
    gaps: tuple[MissingFiles, ...]
    refused: int = 0
    refusals: tuple[RefusedLookup, ...] = ()


@dataclass(frozen=True)
class LakeChecker:
    """Checks lakes. Everything that touches files runs on the engine."""

    stores: Stores
    engine: SweepEngine
    sources: RootSourceFactory = root_sources

    def check(self, lake: Lake, survey: LakeSurvey, address: str) -> CheckResult:
        """Find the missing files of a surveyed lake. Datasets are written below `address`."""
        marks = survey.marks
        listing = files_of(self.stores, survey.listing)
        sources = self.sources(self.stores, lake, listing)
        for look in range(_LOOKS):
            found = self._miss(lake, survey, marks, f"{address}/missing-{look}")
            if not _has_moved(sources, found):
                return found
            spec = MarkSpec(self.engine, self.stores, f"{address}/marks-{look}", cache=marks)
            marks = mark(spec, sources)
        return self._miss(lake, survey, marks, f"{address}/missing")

    def _miss(self, lake: Lake, survey: LakeSurvey, marks: Marks, address: str) -> CheckResult:
        # Of a location that could not be listed nothing is known: it is not checked.
        unlisted = {each.location for each in survey.unlisted}
        locations = location_map(each for each in lake.locations if each not in unlisted)
        optional = SubsetFilters(self.stores, self.engine, f"{address}-chosen").unneeded(marks)
        step = MissingStep(
            self.stores, address, locations, root_needs(self.stores, marks), optional
        )
        answers = self.engine.miss(step, survey.listing, marks.content, TASK_RESULTS)
        parts = results_of(answers, "part", Part)
        return CheckResult(
            marks,
            commit_dataset(self.stores, address, parts, MISSING),
            sum(results_of(answers, "files", int)),
            sum(results_of(answers, "outside", int)),
            tuple(_merge(results_of(answers, "gap", MissingFiles))),
            sum(results_of(answers, "refused", int)),
            tuple(results_of(answers, "refusal", RefusedLookup))[:MOST_REFUSALS],
        )


def _has_moved(sources: Sequence[RootSource], found: CheckResult) -> bool:
    """Whether a table with missing files has changed since it was marked."""
    broken = {gap.table for gap in found.gaps}
    if not broken:
        return False
    pointers = {root.name: root.pointer for root in found.marks.roots if root.name in broken}
    now = {row.name: row.pointer for row in _rows(sources) if row.name in broken}
    return pointers != now


def _rows(sources: Iterable[RootSource]) -> Iterator[RootRow]:
    return (row for row in collect_roots(sources) if isinstance(row, RootRow))


def _merge(gaps: Iterable[MissingFiles]) -> Iterator[MissingFiles]:
    """What all tasks found, added up by table and kind."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for gap in gaps:
        files, size = sums.get((gap.table, gap.kind), (0, 0))
        sums[gap.table, gap.kind] = (files + gap.files, size + gap.bytes)
    for (table, kind), (files, size) in sorted(sums.items()):
        yield MissingFiles(table, kind, files, size)


_ODD = np.uint64(0x9E3779B97F4A7C15)


class MissingFiles(msgspec.Struct, frozen=True):
    """How many files of one kind a table lacks."""

    table: str
    kind: str
    files: int
    bytes: int


class RefusedLookup(msgspec.Struct, frozen=True):
    """A referenced file that could not be looked up, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class MissingStep:
    """Writes files (LIVE) that are not stored into parts of a dataset of MISSING.

    They were not listed. A writer may have created them since, so each is looked up again. Files
    outside of the locations were never listed and are only counted. `optional` are filters of files
    that may be missing.
    """

    stores: Stores
    address: str
    locations: FolderMap
    needs: RootNeeds
    optional: Sequence[StoredShard] = ()
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _Found(self)
        for batch in batches:
            found.add(batch)
        yield from found.answers()


class _Found:
    """What a task has found so far; 24 to 48 bytes per file."""

    def __init__(self, step: MissingStep) -> None:
        self._step = step
        self._optional = BloomShards.load(step.stores, step.optional) if step.optional else None
        self._writer = DatasetWriter(step.stores, step.address, MISSING)
        self._seen, self._outside, self._gone, self._told = (HashSet() for _ in range(4))
        self._gaps: list[pa.Table] = []
        self._refused = 0
        self._refusals: list[RefusedLookup] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take files that were not listed."""
        if self._optional is not None:
            batch = batch.filter(pa.array(~self._optional.contains(hashes_of(batch))))
        inside = self._step.locations.find(resolve_aliases(identities(batch["path"]))) >= 0
        self._outside.add(_hashes(batch, ~inside))
        here = batch.filter(pa.array(inside))
        self._look(here.filter(pa.array(self._seen.add(hashes_of(here)))))
        self._tell(here.filter(pa.array(self._gone.contains(hashes_of(here)))))

    def answers(self) -> Iterator[pa.RecordBatch]:
        """The part that was written, and its totals."""
        yield task_result("part", self._writer.finish())
        yield task_result("gap", _sums(self._gaps))
        yield task_result("files", [len(self._gone)])
        yield task_result("outside", [len(self._outside)])
        yield task_result("refused", [self._refused])
        yield task_result("refusal", self._refusals)

    def _look(self, files: pa.RecordBatch) -> None:
        paths = files["path"].to_pylist()
        found = list(map_ordered(self._look_up, paths, workers=self._step.workers))
        refusals = [each for each in found if isinstance(each, RefusedLookup)]
        self._refused += len(refusals)
        self._refusals += refusals[: MOST_REFUSALS - len(self._refusals)]
        self._gone.add(_hashes(files, np.array([each is True for each in found], np.bool_)))

    def _look_up(self, path: str) -> bool | RefusedLookup:
        """Whether a file is gone; one key that a store refuses does not end the whole check."""
        try:
            place = parse(path)
            self._step.stores.open(place).head(place.key)
        except MissingError:
            return True
        except (ThrottledError, UnavailableError):
            raise  # it would be the same for all the others
        except (StorageError, UsageError) as error:
            return RefusedLookup(path, getattr(error, "reason", error.message))
        return False

    def _tell(self, files: pa.RecordBatch) -> None:
        """Write who needs the files, once per root."""
        needs = self._step.needs
        places, roots = needs.lineage.expand(files["source"].to_numpy())
        rows = files.take(pa.array(places))
        low, high = hashes_of(rows)
        is_new = pa.array(self._told.add((low + roots.view(np.uint64) * _ODD, high)))
        names = needs.names.take(pa.array(roots)).filter(is_new)
        new = rows.filter(is_new)
        columns = [*(new[name] for name in ("path", "kind", "size_bytes")), names]
        missing = pa.RecordBatch.from_arrays(columns, schema=MISSING)
        self._writer.add(missing)
        self._gaps.append(_count(missing))


def _count(missing: pa.RecordBatch) -> pa.Table:
    columns = {
        "table": missing["table"],
        "kind": missing["kind"].fill_null("unknown"),
        "bytes": missing["size_bytes"].fill_null(0),
    }
    return (
        pa.table(columns)
        .group_by(["table", "kind"])
        .aggregate([([], "count_all"), ("bytes", "sum")])
        .rename_columns(["table", "kind", "files", "bytes"])
    )


def _sums(gaps: Sequence[pa.Table]) -> list[dict[str, Any]]:
    if not gaps:
        return []
    grouped = pa.concat_tables(gaps).group_by(["table", "kind"])
    sums = grouped.aggregate([("files", "sum"), ("bytes", "sum")])
    rows: list[dict[str, Any]] = sums.rename_columns(
        ["table", "kind", "files", "bytes"]
    ).to_pylist()
    return rows


def _hashes(
    batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    low, high = hashes_of(batch)
    return low[mask], high[mask]
