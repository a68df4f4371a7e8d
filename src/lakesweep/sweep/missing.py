"""The step that finds out which referenced files are really gone, and who needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.hashing import HashSet
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets import DatasetWriter
from lakesweep.storage.local.aliases import resolve
from lakesweep.sweep.answers import answer
from lakesweep.sweep.columns import MISSING, hashes_of
from lakesweep.sweep.filters import Filters
from lakesweep.sweep.lineage import Lineage
from lakesweep.sweep.owners import FolderMap

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.marks import RootMark

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Gap(msgspec.Struct, frozen=True):
    """How many files of a kind a table needs and does not have."""

    table: str
    kind: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Needs:
    """Which roots need what a source names. Roots are numbers among the names."""

    names: pa.Array
    lineage: Lineage

    @classmethod
    def of(cls, roots: Sequence[RootMark], lineage: Lineage) -> Needs:
        """The needs of marked roots; several may have one and the same file as their own."""
        known = [(root.name, root.source) for root in roots if root.source is not None]
        numbers = np.arange(len(known), dtype=np.int64)
        by_file = Lineage.of(numbers, np.array([source for _, source in known], np.int64))
        places, named = by_file.expand(lineage.roots)
        names = pa.array([name for name, _ in known], pa.string())
        return cls(names, Lineage.of(named, lineage.sources[places]))


@dataclass(frozen=True)
class MissStep:
    """Writes files (LIVE) that are not stored into parts of a dataset of MISSING.

    They were not listed. Whoever writes to the lake may have made them since, so each is looked at
    once more. What lies outside of the locations was never listed, and is only counted. `optional`
    are filters of what nobody misses.
    """

    stores: Stores
    address: str
    locations: FolderMap
    needs: Needs
    optional: Sequence[str] = ()
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _Found(self)
        for batch in batches:
            found.add(batch)
        yield from found.answers()


class _Found:
    """What one call of the step has found so far: 24 to 48 bytes for each file and its needs."""

    def __init__(self, step: MissStep) -> None:
        self._step = step
        self._optional = Filters.load(step.stores, step.optional) if step.optional else None
        self._writer = DatasetWriter(step.stores, step.address, MISSING)
        self._seen, self._outside, self._gone, self._told = (HashSet() for _ in range(4))
        self._gaps: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take files that were not listed."""
        if self._optional is not None:
            batch = batch.filter(pa.array(~self._optional.contains(hashes_of(batch))))
        inside = self._step.locations.find(resolve(identities(batch["path"]))) >= 0
        self._outside.add(_hashes(batch, ~inside))
        here = batch.filter(pa.array(inside))
        self._look(here.filter(pa.array(self._seen.add(hashes_of(here)))))
        self._tell(here.filter(pa.array(self._gone.contains(hashes_of(here)))))

    def answers(self) -> Iterator[pa.RecordBatch]:
        """What was written, and sums of it."""
        yield answer("part", self._writer.finish())
        yield answer("gap", _sums(self._gaps))
        yield answer("files", [len(self._gone)])
        yield answer("outside", [len(self._outside)])

    def _look(self, files: pa.RecordBatch) -> None:
        paths = files["path"].to_pylist()
        gone = list(map_ordered(self._is_gone, paths, workers=self._step.workers))
        self._gone.add(_hashes(files, np.array(gone, np.bool_)))

    def _is_gone(self, path: str) -> bool:
        place = parse(path)
        try:
            self._step.stores.open(place).head(place.key)
        except MissingError:
            return True
        return False

    def _tell(self, files: pa.RecordBatch) -> None:
        """Write down who needs files, once for each root."""
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
