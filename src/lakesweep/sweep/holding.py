"""What lies in quarantine, by the plan that set it aside; bringing it back, or ending its hold.

What a plan was to set aside was written down before the first file went: the `delete` dataset of
each run that applied it, and the places, in the record of the run. So files are found again
whatever happened to the run, or to the configuration since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from lakesweep.errors import MissingError, NotFoundError
from lakesweep.hashing import HashSet
from lakesweep.storage.datasets import load_dataset, read_dataset
from lakesweep.storage.file_hashes import file_hashes
from lakesweep.storage.outcome import Tally
from lakesweep.storage.places import Places
from lakesweep.storage.quarantine import empty, held_files
from lakesweep.storage.restoring import restore
from lakesweep.sweep.columns import hashes_of
from lakesweep.sweep.control import run_folder
from lakesweep.sweep.records import RunKind, RunRecord

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.runs import Runs

_COLUMNS = ["path", "size_bytes", "modified", "etag", "h1", "h2"]


@dataclass(frozen=True)
class Holding:
    """What one plan set aside. `ended` is the run that emptied it, if any."""

    plan: str
    lake: str
    runs: tuple[RunRecord, ...]
    restores: tuple[RunRecord, ...] = ()
    ended: str | None = None

    @property
    def files(self) -> int:
        """How many files it set aside, less those that were brought back."""
        return _sum(self.runs, "quarantined") - self.restored

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        return _sum(self.runs, "bytes_quarantined") - _sum(self.restores, "bytes_restored")

    @property
    def restored(self) -> int:
        """How many files were brought back."""
        return _sum(self.restores, "restored")

    @property
    def since(self) -> int:
        """When its first run began, in microseconds since 1970."""
        return min(run.started_at for run in self.runs)


def _sum(runs: Iterable[RunRecord], figure: str) -> int:
    return sum(int(run.figures.get(figure, 0)) for run in runs)


def places_of(lake: Lake, plan: str) -> Places:
    """Where the files of a plan lie in quarantine: the same for all runs that apply it."""
    return Places.of(
        (location, f"{lake.quarantine(location)}/{plan}") for location in lake.locations
    )


def holdings(runs: Runs, lake: str | None = None) -> Iterator[Holding]:
    """Everything that was set aside, newest first."""
    applied: dict[str, list[RunRecord]] = {}
    restored: dict[str, list[RunRecord]] = {}
    ended: dict[str, str] = {}
    for run in runs.list(lake):
        if run.plan is None:
            continue
        if run.kind is RunKind.APPLY and run.spec.get("quarantine"):
            applied.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.RESTORE:
            restored.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.EMPTY:
            ended.setdefault(run.plan, run.run)
    for plan, found in applied.items():
        back = tuple(restored.get(plan, ()))
        yield Holding(plan, found[0].lake, tuple(found), back, ended.get(plan))


def held_folders(runs: Runs) -> Iterator[str]:
    """The folders in which files were set aside, whatever the configuration says by now."""
    for run in runs.list():
        if run.kind is RunKind.APPLY and (places := _places(run)) is not None:
            yield from (place.folder for place in places.places)


def find_holding(runs: Runs, name: str) -> Holding:
    """What a plan, or a run of it, set aside. NotFoundError if that is nothing."""
    for holding in holdings(runs):
        if name == holding.plan or name in {run.run for run in holding.runs}:
            return holding
    raise NotFoundError(
        f"{name} set nothing aside", hint="lakesweep quarantine list shows what is held"
    )


@dataclass(frozen=True)
class Keeper:
    """Brings back what a plan set aside, or lets go of it. Both may be repeated."""

    stores: Stores
    runs: Runs
    lake: Lake

    def restore(self, holding: Holding, paths: Collection[str] = ()) -> Tally:
        """Bring files back under their old keys: all, or those that are named."""
        return _count(restore(self.stores, self._files(holding, paths)))

    def empty(self, holding: Holding) -> Tally:
        """Delete for good what was set aside."""
        return _count(empty(self.stores, self._files(holding, ())))

    def _files(self, holding: Holding, paths: Collection[str]) -> Iterator[pa.RecordBatch]:
        """What all runs of a plan were to set aside; each file once for each place."""
        address = self.runs.plan(holding.plan).address
        seen: dict[Places, HashSet] = {}
        for run in holding.runs:
            places = _places(run) or places_of(self.lake, holding.plan)
            known = seen.setdefault(places, HashSet())
            rows = (_select(batch, paths) for batch in self._rows(address, run, known))
            yield from held_files(self.stores, rows, places)

    def _rows(self, address: str, run: RunRecord, known: HashSet) -> Iterator[pa.RecordBatch]:
        try:
            deletes = load_dataset(self.stores, f"{run_folder(address, run.run)}/delete")
        except MissingError:
            return  # it ended before it came to deletes
        for batch in read_dataset(self.stores, deletes, _COLUMNS):
            yield batch.filter(pa.array(known.add(hashes_of(batch))))


def _places(run: RunRecord) -> Places | None:
    """Where a run set files aside, as it wrote down before it began."""
    told = run.spec.get("places")
    return None if told is None else msgspec.convert(told, Places)


def _select(batch: pa.RecordBatch, paths: Collection[str]) -> pa.RecordBatch:
    if not paths:
        return batch
    wanted = HashSet()
    wanted.add(file_hashes(pa.array(list(paths), pa.string())))
    return batch.filter(pa.array(wanted.contains(hashes_of(batch))))


def _count(outcomes: Iterable[pa.RecordBatch]) -> Tally:
    tally = Tally()
    for batch in outcomes:
        tally.add(batch)
    return tally
