"""What lies in quarantine, by the plan that set it aside; bringing it back.

What a plan was to set aside was written down before the first file went: the `delete` dataset of
each run that applied it, and the places, in the record of the run. So files are found again
whatever happened to the run, or to the configuration since. Where these files of the plan are gone
as well, what lies in the places is listed: each file is there under its whole old key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import IncompleteError, MissingError, NotFoundError
from lakesweep.hashing import Hashes, HashSet
from lakesweep.storage.address import parse
from lakesweep.storage.dataset_manifest import MANIFEST_NAME
from lakesweep.storage.datasets import load_dataset, read_dataset
from lakesweep.storage.file_hashes import file_hashes, hash_columns
from lakesweep.storage.listing import list_files
from lakesweep.storage.moving import is_there
from lakesweep.storage.outcome import Tally
from lakesweep.storage.places import Places
from lakesweep.storage.quarantine import held_files
from lakesweep.storage.restoring import restore
from lakesweep.sweep.columns import LISTING, hashes_of
from lakesweep.sweep.control import run_folder
from lakesweep.sweep.records import RunKind, RunRecord, RunStatus
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.runs import Runs

_COLUMNS = ["path", "size_bytes", "modified", "etag", "h1", "h2"]


@dataclass(frozen=True)
class Holding:
    """What one plan set aside. `ended` is the run that emptied it, if any.

    `seen` are files and bytes that lie in quarantine, where runs that died did not count them.
    """

    plan: str
    lake: str
    runs: tuple[RunRecord, ...]
    restores: tuple[RunRecord, ...] = ()
    ended: str | None = None
    empties: tuple[RunRecord, ...] = ()
    seen: tuple[int, int] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether all runs lived to tell what they did."""
        return all("quarantined" in run.figures for run in self.runs)

    @property
    def files(self) -> int:
        """How many files it set aside, less those that were brought back or are gone."""
        if self.seen is not None:
            return self.seen[0]
        return _sum(self.runs, "quarantined") - self.restored - _sum(self.empties, "deleted")

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        if self.seen is not None:
            return self.seen[1]
        gone = _sum(self.restores, "bytes_restored") + _sum(self.empties, "bytes_deleted")
        return _sum(self.runs, "bytes_quarantined") - gone

    @property
    def restored(self) -> int:
        """How many files were brought back."""
        return _sum(self.restores, "restored")

    @property
    def locations(self) -> tuple[str, ...]:
        """Where its files lay, as far as its runs wrote that down."""
        told = (places.places for run in self.runs if (places := _places(run)) is not None)
        return tuple(dict.fromkeys(place.location for some in told for place in some))

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
    emptied: dict[str, list[RunRecord]] = {}
    for run in runs.list(lake):
        if run.plan is None:
            continue
        if run.kind is RunKind.APPLY and run.spec.get("quarantine"):
            applied.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.RESTORE:
            restored.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.EMPTY:
            emptied.setdefault(run.plan, []).append(run)
    for plan, found in applied.items():
        back, empties = tuple(restored.get(plan, ())), tuple(emptied.get(plan, ()))
        ended = next((run.run for run in empties if run.status is RunStatus.DONE), None)
        yield Holding(plan, found[0].lake, tuple(found), back, ended, empties)


def held_folders(runs: Runs) -> Iterator[str]:
    """The folders in which files were set aside, whatever the configuration says by now."""
    for run in runs.list():
        if run.kind is RunKind.APPLY and (places := _places(run)) is not None:
            yield from (place.folder for place in places.places)


def recount(stores: StoreOpener, holding: Holding) -> Holding:
    """Count what lies in quarantine where a run died before it told.

    Below delete markers nothing can be counted, so what the runs told has to do.
    """
    if holding.is_counted or holding.ended:
        return holding
    places = {_places(run) for run in holding.runs} - {None}
    files, size, known = 0, 0, HashSet()
    for batch in (batch for each in places if each for batch in _listed(stores, each)):
        new = batch.filter(pa.array(known.add(hashes_of(batch))))
        files += new.num_rows
        size += pc.sum(new["size_bytes"]).as_py() or 0
    return replace(holding, seen=(files, size)) if files else holding


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
    """Finds what a plan set aside, and brings it back, as often as one likes."""

    stores: Stores
    runs: Runs
    lake: Lake

    def restore(self, holding: Holding, paths: Collection[str] = ()) -> Tally:
        """Bring files back under their old keys: all, or those that are named.

        NotFoundError for a name of none of them; nothing is brought back then.
        """
        self._check_named(holding, paths)
        tally = Tally()
        for batch in restore(self.stores, self.files(holding, paths)):
            tally.add(batch)
        self.check_found(holding, tally.found)
        return tally

    def check_found(self, holding: Holding, found: int) -> None:
        """IncompleteError where there must be files in quarantine, and none was found."""
        if not found and holding.files > 0:
            held = format_count(holding.files, "file")
            raise IncompleteError(
                f"{holding.plan} set {held} aside, and none of them is found: the list in"
                f" {self.runs.plan(holding.plan).address} is gone, and the quarantine is empty",
                hint="bring the folder of the plan back: by it alone versions are found again",
            )

    def _check_named(self, holding: Holding, paths: Collection[str]) -> None:
        left = {path: _hashes([path]) for path in paths}
        for batch in self.files(holding, paths) if left else ():
            found = HashSet()
            found.add(hashes_of(batch))
            left = {path: one for path, one in left.items() if not found.contains(one)[0]}
        for path in left:
            raise NotFoundError(
                f"{holding.plan} did not set {path} aside; nothing was brought back",
                hint=f"lakesweep show {holding.plan} --verdict delete --files lists what it did",
            )

    def files(self, holding: Holding, paths: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """What all runs of a plan were to set aside; each file once for each place."""
        address = self.runs.plan(holding.plan).address
        seen: dict[Places, HashSet] = {}
        for run in holding.runs:
            places = _places(run) or places_of(self.lake, holding.plan)
            known = seen.setdefault(places, HashSet())
            is_told = self._is_stored(f"{run_folder(address, run.run)}/delete/{MANIFEST_NAME}")
            rows = self._rows(address, run) if is_told else _listed(self.stores, places)
            new = (batch.filter(pa.array(known.add(hashes_of(batch)))) for batch in rows)
            yield from held_files(self.stores, (_select(batch, paths) for batch in new), places)

    def _is_stored(self, path: str) -> bool:
        place = parse(path)
        return is_there(self.stores.open(place), place.key)

    def _rows(self, address: str, run: RunRecord) -> Iterator[pa.RecordBatch]:
        """What a run wrote down, each time that it settled what goes."""
        folder = run_folder(address, run.run)
        for part in chain([folder], (f"{folder}/again-{number}" for number in count(1))):
            try:
                deletes = load_dataset(self.stores, f"{part}/delete")
            except MissingError:
                return  # it ended before it came to deletes
            yield from read_dataset(self.stores, deletes, _COLUMNS)


def _listed(stores: StoreOpener, places: Places) -> Iterator[pa.RecordBatch]:
    """What lies in some places, by the keys that it had before."""
    for place in places.places:
        folder, location = parse(f"{place.folder}/"), parse(place.location)
        with suppress(MissingError):
            for batch in list_files(stores, folder):
                keys = (parse(path).key for path in batch["path"].to_pylist())
                old = [location.child(key.removeprefix(folder.key)).path for key in keys]
                yield _unknown(pa.array(old, pa.string()), batch["size_bytes"])


def _unknown(paths: pa.Array, sizes: pa.Array) -> pa.RecordBatch:
    """Files of which nobody knows when they were written."""
    nothing = (pa.nulls(len(paths), LISTING.field(name).type) for name in ("modified", "etag"))
    columns = [paths, sizes, *nothing, *hash_columns(file_hashes(paths))]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING)


def _places(run: RunRecord) -> Places | None:
    """Where a run set files aside, as it wrote down before it began."""
    told = run.spec.get("places")
    return None if told is None else msgspec.convert(told, Places)


def _select(batch: pa.RecordBatch, paths: Collection[str]) -> pa.RecordBatch:
    if not paths:
        return batch
    wanted = HashSet()
    wanted.add(_hashes(paths))
    return batch.filter(pa.array(wanted.contains(hashes_of(batch))))


def _hashes(paths: Iterable[str]) -> Hashes:
    return file_hashes(pa.array(list(paths), pa.string()))
