"""Find the quarantined files of a plan and restore them.

Before the first file is moved, each run writes down what it is going to move (its `delete`
datasets, with their hashes in its record) and where to (its record). So files are found again
whatever happened to the run or to the configuration. If the files of the plan are gone too, the
quarantine folders are listed: each file lies there under its whole old key.

A dataset that is not what the run wrote is never used: its rows might pair the path of one file
with the hash of another, and hashes decide what is referenced. Runs of older versions recorded no
hashes. They moved no more than their plan lists, and the store vouches for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import IncompleteError, MissingError, NotFoundError
from lakesweep.hashing import Hashes, HashSet
from lakesweep.runs.fencing import RequestFence
from lakesweep.runs.location_lock import lock_locations
from lakesweep.runs.records import RunRecord, run_folder
from lakesweep.runs.restore_marks import mark_restore
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_vouched, read_dataset
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import held_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.sweep.columns import LISTING, hashes_of
from lakesweep.sweep.holdings import Holding, quarantine_places, recorded_places
from lakesweep.sweep.plan.document import load_plan, open_dataset
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake

#: Leaves some rows of a batch (LISTING).
Select: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

_WITHOUT_LIST = "find out who changed it; without that folder, the quarantine itself is listed"
_COLUMNS = ["path", "size_bytes", "modified", "etag", "h1", "h2"]


def count_held(stores: StoreOpener, holding: Holding) -> Holding:
    """Count the quarantined files if a run died before it recorded them.

    Versions below delete markers cannot be counted, so the recorded figures stand.
    """
    if holding.is_counted or holding.ended:
        return holding
    places = {recorded_places(run) for run in holding.runs} - {None}
    files, size, known = 0, 0, HashSet()
    for batch in (batch for each in places if each for batch in _listed(stores, each)):
        new = batch.filter(pa.array(known.add(hashes_of(batch))))
        files += new.num_rows
        size += pc.sum(new["size_bytes"]).as_py() or 0
    return replace(holding, seen=(files, size)) if files else holding


@dataclass(frozen=True)
class QuarantineRestorer:
    """Finds what a plan quarantined and restores it; can be repeated."""

    stores: Stores
    runs: RunLog
    lake: Lake

    def restore(
        self,
        holding: Holding,
        session: Session,
        paths: Collection[str] = (),
        select: Select | None = None,
    ) -> OutcomeTotals:
        """Restore files under their old keys: all, those in `paths`, or what `select` leaves.

        `session` has the lease. NotFoundError for a path that was not quarantined; then nothing is
        restored.
        """
        self._check_named(holding, paths)
        locations = tuple(dict.fromkeys((*self.lake.locations, *holding.locations)))
        with (
            lock_locations(self.stores, self.runs, locations, session),
            mark_restore(self.stores, holding.lake, locations, session.record.run),
        ):
            return self._restore(holding, session.lease, paths, select)

    def _restore(
        self, holding: Holding, lease: HeldLease, paths: Collection[str], select: Select | None
    ) -> OutcomeTotals:
        fence = RequestFence(lease.verified_until, lease.clock)
        tally = OutcomeTotals()
        files = self.files(holding, paths, select)
        for batch in restore_files(FencedStores(self.stores, fence), files):
            tally.add(batch)
        if fence.ended is not None:
            raise fence.ended
        if select is None:
            self.check_found(holding, tally.found)
        return tally

    def check_found(self, holding: Holding, found: int) -> None:
        """IncompleteError if there should be files in quarantine and none was found."""
        if not found and holding.files > 0:
            held = format_count(holding.files, "file")
            raise IncompleteError(
                f"{holding.plan} quarantined {held}, and none of them can be found: the list in"
                f" {self.runs.plan(holding.plan).address} is gone, and the quarantine is empty",
                hint="restore the folder of the plan: versions can be found only with it",
            )

    def _check_named(self, holding: Holding, paths: Collection[str]) -> None:
        left = {path: _hashes([path]) for path in paths}
        for batch in self.files(holding, paths) if left else ():
            found = HashSet()
            found.add(hashes_of(batch))
            left = {path: one for path, one in left.items() if not found.contains(one)[0]}
        for path in left:
            raise NotFoundError(
                f"{holding.plan} did not quarantine {path}; nothing was restored",
                hint=f"lakesweep show {holding.plan} --verdict delete --files lists what it did",
            )

    def files(
        self, holding: Holding, paths: Collection[str] = (), select: Select | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The files that the runs of a plan were to quarantine, once for each place."""
        address = self.runs.plan(holding.plan).address
        seen: dict[QuarantineFolders, HashSet] = {}
        for run in holding.runs:
            places = recorded_places(run) or quarantine_places(self.lake, holding.plan)
            known = seen.setdefault(places, HashSet())
            lists = self._lists(holding.plan, address, run)
            rows = _listed(self.stores, places) if lists is None else self._rows(lists)
            new = (batch.filter(pa.array(known.add(hashes_of(batch)))) for batch in rows)
            some = (_select(batch, paths) for batch in new)
            chosen = some if select is None else map(select, some)
            yield from held_files(self.stores, chosen, places)

    def _lists(self, plan: str, address: str, run: RunRecord) -> Sequence[Dataset] | None:
        """The lists of what a run was to move; None if they are gone."""
        if run.datasets is None:
            return self._planned(plan)
        folder = run_folder(address, run.run)
        try:
            return [
                load_vouched(self.stores, f"{folder}/{name}", sha256, hint=_WITHOUT_LIST)
                for name, sha256 in run.datasets.items()
            ]
        except MissingError:
            return None

    def _planned(self, plan: str) -> Sequence[Dataset] | None:
        record = self.runs.plan(plan)
        try:
            datasets = load_plan(self.stores, record).datasets
            return [open_dataset(self.stores, record.address, datasets, Verdict.DELETE.value)]
        except (MissingError, NotFoundError):
            return None

    def _rows(self, lists: Iterable[Dataset]) -> Iterator[pa.RecordBatch]:
        for deletes in lists:
            yield from read_dataset(self.stores, deletes, _COLUMNS)


def _listed(stores: StoreOpener, places: QuarantineFolders) -> Iterator[pa.RecordBatch]:
    """The files in some quarantine folders, under their old keys."""
    for place in places.places:
        folder, location = parse(f"{place.folder}/"), parse(place.location)
        with suppress(MissingError):
            for batch in list_files(stores, folder):
                keys = (parse(path).key for path in batch["path"].to_pylist())
                old = [location.child(key.removeprefix(folder.key)).path for key in keys]
                yield _unknown(pa.array(old, pa.string()), batch["size_bytes"])


def _unknown(paths: pa.Array, sizes: pa.Array) -> pa.RecordBatch:
    """Files whose age and ETag are unknown."""
    nothing = (pa.nulls(len(paths), LISTING.field(name).type) for name in ("modified", "etag"))
    columns = [paths, sizes, *nothing, *hash_columns(file_hashes(paths))]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING)


def _select(batch: pa.RecordBatch, paths: Collection[str]) -> pa.RecordBatch:
    if not paths:
        return batch
    wanted = HashSet()
    wanted.add(_hashes(paths))
    return batch.filter(pa.array(wanted.contains(hashes_of(batch))))


def _hashes(paths: Iterable[str]) -> Hashes:
    return file_hashes(pa.array(list(paths), pa.string()))
