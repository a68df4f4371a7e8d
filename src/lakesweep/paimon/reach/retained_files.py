"""Which deletion candidates are still held by a remaining owner.

Candidates are 128-bit hashes of paths. All owners are read, each list and manifest once, and
only the rows of candidates are kept. An owner holds a file that is live there: added more
often than deleted, under any of its identities. A path that anything live names is held.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import MissingError, UnreadableError
from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.paimon.manifests.entries import ADD, COMPACT_SOURCE
from lakesweep.paimon.manifests.named_files import ManifestFile, files_of, read_entries
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.claims import OwnerClaim, ReadClaim, read_claim
from lakesweep.paimon.reach.live_files import entry_identities, live_positions
from lakesweep.paimon.reach.owners import (
    FileOwner,
    ManifestList,
    OwnerFile,
    list_owner_files,
    read_owners,
    settle,
)
from lakesweep.parallel import map_ordered
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.object_store import ObjectInfo

#: Owners are read in groups of this size; memory holds what one group names.
_CLAIMS_AT_ONCE = 256

#: A manifest, and where its files lie: branches whose schemas went different ways may differ.
_Key: TypeAlias = tuple[Hashable, str]


class _Wanted(NamedTuple):
    """A manifest that is to be read; unless it is `needed`, it may be gone."""

    layout: Layout
    manifest: ManifestFile
    needed: bool


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of candidates in a manifest: paths, identities, and how they are named."""

    paths: Hashes
    identities: Hashes
    is_added: npt.NDArray[np.bool_]
    is_compacted: npt.NDArray[np.bool_]

    def chosen(self, chosen: npt.NDArray[np.bool_]) -> Hashes:
        return self.paths[0][chosen], self.paths[1][chosen]


class RetainedFiles:
    """Holds candidates for owners. Owners may be added at any time; nothing is ever let go."""

    def __init__(
        self, table: PaimonTable, candidates: HashSet, progress: Progress = SILENT
    ) -> None:
        self._table = table
        self._candidates = candidates
        self._progress = progress
        self._held = HashSet()
        self._known: set[ObjectInfo] = set()
        self._planned: set[str] = set()
        self._seen: set[_Key] = set()
        self._rows: dict[_Key, _Rows] = {}
        self._states: set[tuple[_Key, ...]] = set()

    def hold_owners(
        self,
        leaving: Iterable[FileOwner] = (),
        claim_of: Callable[[FileOwner], OwnerClaim] = OwnerClaim.of,
    ) -> None:
        """Hold for all owners except those that leave, until a new listing shows no other ones.

        `claim_of` says what an owner holds, if that is not all that it should. UnreadableError
        where an owner, or something that it names, cannot be found although the owner is still
        there.
        """
        if not len(self._candidates):  # nothing to be held
            return
        gone = {owner.file.info for owner in leaving}

        def hold_new() -> bool:
            files = self._unknown(gone)
            if files:
                self._hold_files(files, claim_of)
            return not files

        settle(self._table, hold_new)

    def hold_planned(self, claims: Sequence[OwnerClaim]) -> None:
        """Hold for owners that do not exist yet, and will be known by their paths."""
        try:
            self._hold(claims)
        except MissingError as error:
            raise _unreadable(error) from error
        self._planned.update(claim.path for claim in claims)

    def holds(self, paths: Hashes) -> npt.NDArray[np.bool_]:
        """Which of some paths an owner holds."""
        return self._held.contains(paths)

    def spare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that no owner holds."""
        return batch.filter(pa.array(~self.holds(file_hashes(batch["path"]))))

    def _unknown(self, gone: set[ObjectInfo]) -> list[OwnerFile]:
        return [
            file
            for file in list_owner_files(self._table)
            if file.info not in gone
            and file.info not in self._known
            and file.path not in self._planned
        ]

    def _hold_files(
        self, files: Sequence[OwnerFile], claim_of: Callable[[FileOwner], OwnerClaim]
    ) -> None:
        owners = list(read_owners(files, workers=self._table.read_workers))
        try:
            self._hold([claim_of(owner) for owner in owners])
        except MissingError as error:
            if all(owner.exists() for owner in owners):
                raise _unreadable(error) from error
        else:
            self._known.update(owner.file.info for owner in owners)

    def _hold(self, claims: Sequence[OwnerClaim]) -> None:
        with self._progress.task("read", unit="owners", total=len(claims)) as task:
            for start in range(0, len(claims), _CLAIMS_AT_ONCE):
                some = claims[start : start + _CLAIMS_AT_ONCE]
                read = list(map_ordered(self._read, some, workers=self._table.read_workers))
                self._read_manifests(read)
                for each in read:
                    self._hold_metadata(each)
                    self._hold_entries(each)
                task.advance(len(some))

    def _read(self, claim: OwnerClaim) -> ReadClaim:
        return read_claim(self._table, claim)

    def _hold_metadata(self, read: ReadClaim) -> None:
        low, high = file_hashes(pa.array(read.metadata(), pa.string()))
        chosen = self._candidates.contains((low, high))
        self._held.add((low[chosen], high[chosen]))

    def _hold_entries(self, read: ReadClaim) -> None:
        claim = read.claim
        for key in self._keys(read, claim.added):
            rows = self._rows[key]
            self._held.add(rows.chosen(rows.is_added))
        for key in self._keys(read, claim.history):
            rows = self._rows[key]
            self._held.add(rows.chosen(~rows.is_compacted))
        state = tuple(self._keys(read, claim.state))
        if state and state not in self._states:  # many snapshots share all that matters here
            self._states.add(state)
            self._held.add(_live([self._rows[key] for key in state]))

    def _keys(self, read: ReadClaim, lists: tuple[ManifestList, ...]) -> Iterator[_Key]:
        """The manifests of some lists that have rows of candidates."""
        place = read.claim.layout.place
        keys = ((place, manifest.name) for manifest in read.of(lists))
        return (key for key in keys if key in self._rows)

    def _read_manifests(self, read: Iterable[ReadClaim]) -> None:
        wanted: dict[_Key, _Wanted] = {}
        for each in read:
            claim = each.claim
            for file in (*claim.state, *claim.added, *claim.history):
                for manifest in each.of((file,)):
                    key: _Key = (claim.layout.place, manifest.name)
                    if key not in self._seen and (file.needed or key not in wanted):
                        wanted[key] = _Wanted(claim.layout, manifest, file.needed)
        read_rows = partial(_candidate_rows, self._table, self._candidates)
        found = self._table.map_manifests(read_rows, wanted.values())
        for (key, manifest_read), rows in zip(wanted.items(), found, strict=True):
            if rows is not None:
                self._rows[key] = rows
            if manifest_read.needed:
                self._seen.add(key)


def _candidate_rows(table: PaimonTable, candidates: HashSet, wanted: _Wanted) -> _Rows | None:
    """The rows of candidates in a manifest, if there are any."""
    try:
        batches = read_entries(table, wanted.manifest)
        found = (_chosen_rows(candidates, wanted.layout, batch) for batch in batches)
        parts = [rows for rows in found if rows is not None]
    except MissingError:
        if wanted.needed:
            raise
        return None
    return _together(parts) if parts else None


def _chosen_rows(candidates: HashSet, layout: Layout, entries: pa.RecordBatch) -> _Rows | None:
    files = files_of(layout, entries)
    hashes = file_hashes(files.paths)
    chosen = candidates.contains(hashes)
    if not chosen.any():
        return None
    rows = entries.take(pa.array(files.rows[chosen]))
    paths = files.paths.filter(pa.array(chosen))
    return _Rows(
        (hashes[0][chosen], hashes[1][chosen]),
        hash128(entry_identities(paths, rows)),
        rows["kind"].to_numpy() == ADD,
        rows["file_source"].fill_null(0).to_numpy() == COMPACT_SOURCE,
    )


def _live(parts: Sequence[_Rows]) -> Hashes:
    """The paths of what is added more often than deleted."""
    rows = _together(parts)
    live = live_positions(rows.identities, rows.is_added)
    return rows.paths[0][live], rows.paths[1][live]


def _together(parts: Sequence[_Rows]) -> _Rows:
    def joined(name: str, half: int) -> npt.NDArray[np.uint64]:
        return np.concatenate([getattr(part, name)[half] for part in parts])

    return _Rows(
        (joined("paths", 0), joined("paths", 1)),
        (joined("identities", 0), joined("identities", 1)),
        np.concatenate([part.is_added for part in parts]),
        np.concatenate([part.is_compacted for part in parts]),
    )


def _unreadable(error: MissingError) -> UnreadableError:
    return UnreadableError(error.path, ReadFailure.MISSING, error.reason)
