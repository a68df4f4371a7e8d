"""Drop partitions: one commit that deletes every live file in them.

Storage is not touched: files are deleted when the snapshots that still show them expire. A
reader matches a DELETE with its ADD by the file's whole identity, so each live entry is copied
unchanged except for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, LakesweepError
from lakesweep.paimon.commit.manifest_merge import merge_manifests
from lakesweep.paimon.commit.manifest_rows import (
    ManifestWriter,
    batch_identities,
    read_entry_rows,
    read_row_entries,
    total_rows,
)
from lakesweep.paimon.commit.snapshot_commit import PreparedCommit, commit_snapshot
from lakesweep.paimon.manifests.entries import ADD, DELETE, read_index_manifest
from lakesweep.paimon.manifests.row_formats import (
    Row,
    RowFormat,
    check_alike,
    read_format,
    read_rows,
    widest,
)
from lakesweep.paimon.model.snapshots import CommitKind, PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.partitions.snapshot_partitions import (
    WORKERS,
    Partition,
    SnapshotPartitions,
    list_partitions,
)
from lakesweep.progress import SILENT, Progress
from lakesweep.untrusted.documents import JsonObject

#: Chooses the partitions to drop, by their bytes.
Choose = Callable[[SnapshotPartitions], Collection[bytes]]

#: The identifier of commits that no stream of checkpoints numbers.
_BATCH_IDENTIFIER = 2**63 - 1
_VERSION = 3
#: What a commit takes over from the one before it, if present.
_CARRIED = ("watermark", "properties")


@dataclass(frozen=True, slots=True)
class DroppedPartitions:
    """The commit that dropped partitions; None if there was nothing to drop."""

    snapshot: PaimonSnapshot | None
    partitions: tuple[Partition, ...]


def drop_partitions(
    branch: PaimonBranch,
    choose: Choose,
    *,
    operation: str | None = None,
    known: SnapshotPartitions | None = None,
    progress: Progress = SILENT,
) -> DroppedPartitions:
    """Drop the partitions that `choose` selects from the newest snapshot, in one commit.

    If another commit wins, `choose` is called again with the new snapshot. `known` saves reading
    a snapshot a second time; `operation` is recorded in the new snapshot.
    """
    dropper = _Dropper(branch, choose, operation, known, progress)
    snapshot = commit_snapshot(branch, dropper.prepare)
    return DroppedPartitions(snapshot, dropper.chosen if snapshot is not None else ())


class _Dropper:
    """Prepares a commit on any snapshot; `chosen` are the partitions of the last one."""

    def __init__(
        self,
        branch: PaimonBranch,
        choose: Choose,
        operation: str | None,
        known: SnapshotPartitions | None,
        progress: Progress,
    ) -> None:
        self._branch = branch
        self._choose = choose
        self._operation = operation
        self._known = known
        self._progress = progress
        self.chosen: tuple[Partition, ...] = ()

    def prepare(self, latest: PaimonSnapshot) -> PreparedCommit | None:
        survey = self._survey(latest)
        wanted = set(self._choose(survey))
        targets = [data for data in survey.partitions if data in wanted]
        self.chosen = tuple(survey.partitions[data] for data in targets)
        if not targets:
            return None
        deletions = find_deletions(self._branch, survey, targets)
        formats = (survey.state.list_format, deletions.format)
        check_alike(self._branch.table.address.path, formats)
        files = ManifestWriter(self._branch)
        try:
            return PreparedCommit(self._document(survey, deletions, files), files)
        except LakesweepError:
            files.remove()
            raise

    def _survey(self, latest: PaimonSnapshot) -> SnapshotPartitions:
        if self._known is None or self._known.snapshot.raw != latest.raw:
            self._known = list_partitions(self._branch, latest, self._progress, known=self._known)
        return self._known

    def _document(
        self, survey: SnapshotPartitions, deletions: Deletions, files: ManifestWriter
    ) -> JsonObject:
        """Write everything that the snapshot names, then return the snapshot itself."""
        state, latest = survey.state, survey.snapshot
        index = _index_manifest(self._branch, latest, self.chosen, files)
        base = merge_manifests(self._branch, state.manifests, files)
        delta = files.manifests(deletions.rows, deletions.format)
        base_list = files.manifest_list(base, state.list_format)
        delta_list = files.manifest_list(delta, state.list_format)
        gone = total_rows(deletions.rows)
        document = {
            "version": _VERSION,
            "uuid": str(uuid4()),
            "id": latest.id + 1,
            "schemaId": max(self._branch.schema_files().files),
            "baseManifestList": base_list[0],
            "baseManifestListSize": base_list[1],
            "deltaManifestList": delta_list[0],
            "deltaManifestListSize": delta_list[1],
            "indexManifest": index,
            "commitUser": f"lakesweep-{uuid4()}",
            "commitIdentifier": _BATCH_IDENTIFIER,
            "commitKind": CommitKind.OVERWRITE,
            "timeMillis": max(_millis(self._branch), latest.time_millis),
            "totalRecordCount": _total_before(survey) - gone,
            "deltaRecordCount": -gone,
        }
        carried = _carried(latest, document)
        said = {**document, **carried, "operation": self._operation}
        return {name: value for name, value in said.items() if value is not None}


def _millis(branch: PaimonBranch) -> int:
    return int(branch.table.clock.now().timestamp() * 1000)


def _total_before(survey: SnapshotPartitions) -> int:
    """The rows of a snapshot; very old ones do not record them."""
    said = survey.snapshot.total_record_count
    return sum(each.rows for each in survey.partitions.values()) if said is None else said


def _carried(latest: PaimonSnapshot, document: Mapping[str, Any]) -> JsonObject:
    carried = {name: latest.raw.get(name) for name in _CARRIED}
    carried["nextRowId"] = latest.next_row_id or 0
    if latest.schema_id == document["schemaId"]:  # statistics are about one schema
        carried["statistics"] = latest.statistics
    return carried


def _index_manifest(
    branch: PaimonBranch,
    latest: PaimonSnapshot,
    chosen: Collection[Partition],
    files: ManifestWriter,
) -> str | None:
    """The index files of all other partitions: the same manifest if none is dropped."""
    name = latest.index_manifest
    if name is None:
        return None
    path = branch.layout.manifest(name)
    data = branch.table.read(path)
    least = branch.layout.least_indexes(latest.total_record_count)
    read_index_manifest(path, data, least=least)  # validates
    rows, gone = read_rows(path, data), {partition.data for partition in chosen}
    kept = [row for row in rows if row["_PARTITION"] not in gone]
    if len(kept) == len(rows):
        return name
    return files.index_manifest(kept, read_format(path, data))


@dataclass(frozen=True, slots=True)
class Deletions:
    """DELETE entries, and the format that has all their fields."""

    rows: list[Row]
    format: RowFormat


@dataclass(frozen=True, slots=True)
class _Mention:
    """An entry of a chosen partition: its kind, its identity, and where it is."""

    kind: int
    identity: tuple[object, ...]
    manifest: int
    row: int


def find_deletions(
    branch: PaimonBranch, survey: SnapshotPartitions, targets: Iterable[bytes]
) -> Deletions:
    """The entries that delete all live files of some partitions of a snapshot.

    DamagedError if the manifests contradict each other: then it is unknown what is live.
    """
    chosen = set(targets)
    partitions = pa.array(sorted(chosen), pa.binary())
    manifests = [each for each in survey.state.manifests if survey.has_any(each, partitions)]
    live = _live(branch, manifests, partitions)
    _check_count(branch, survey, chosen, len(live))
    places: dict[int, list[int]] = {}
    for mention in live:
        places.setdefault(mention.manifest, []).append(mention.row)
    rows: list[Row] = []
    formats = []
    for number, chosen_rows in places.items():
        how, entries = read_entry_rows(branch.table, manifests[number])
        formats.append(how)
        rows += [{**entries[place], "_KIND": DELETE} for place in chosen_rows]
    return Deletions(rows, widest(branch.table.address.path, formats))


def _live(branch: PaimonBranch, manifests: Sequence[Row], targets: pa.Array) -> list[_Mention]:
    """What is added and not deleted afterwards, in the order of the manifests."""
    live: dict[tuple[object, ...], _Mention] = {}
    read = partial(_mentions, branch, targets)
    for mentions in branch.table.map_manifests(read, enumerate(manifests), WORKERS):
        for mention in mentions:
            is_new = mention.identity not in live
            if is_new != (mention.kind == ADD):
                raise _contradiction(branch, mention)
            if is_new:
                live[mention.identity] = mention
            else:
                del live[mention.identity]
    return list(live.values())


def _mentions(branch: PaimonBranch, targets: pa.Array, numbered: tuple[int, Row]) -> list[_Mention]:
    number, manifest = numbered
    found: list[_Mention] = []
    first = 0
    for batch in read_row_entries(branch.table, manifest):
        chosen = pc.is_in(batch["partition"], value_set=targets)
        places = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
        rows = batch.take(pa.array(places))
        found += [
            _Mention(kind, identity, number, first + place)
            for kind, identity, place in zip(
                rows["kind"].to_pylist(), batch_identities(rows), places.tolist(), strict=True
            )
        ]
        first += batch.num_rows
    return found


def _contradiction(branch: PaimonBranch, mention: _Mention) -> DamagedError:
    deed = "added twice" if mention.kind == ADD else "deleted without being added"
    return DamagedError(
        branch.table.address.path,
        f"the file {mention.identity[3]} is {deed} by its manifests",
        hint="nothing was changed; check the table with the engine that writes it",
    )


def _check_count(
    branch: PaimonBranch, survey: SnapshotPartitions, chosen: set[bytes], found: int
) -> None:
    expected = sum(survey.partitions[data].files for data in chosen)
    if found != expected:
        raise DamagedError(
            branch.table.address.path, f"only {found} of {expected} live files were found"
        )
