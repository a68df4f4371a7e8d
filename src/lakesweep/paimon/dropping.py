"""Dropping partitions: one commit that deletes every live file of them.

Nothing is removed from storage. The files go when the snapshots that still show them expire.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from lakesweep.errors import LakesweepError
from lakesweep.paimon.committing import Prepared, commit
from lakesweep.paimon.deletions import Deletions, find_deletions
from lakesweep.paimon.entries import read_index_manifest
from lakesweep.paimon.manifest_merging import merge_manifests
from lakesweep.paimon.manifest_states import total_rows
from lakesweep.paimon.new_files import NewFiles
from lakesweep.paimon.row_formats import check_alike, read_format, read_rows
from lakesweep.paimon.snapshots import CommitKind, Snapshot
from lakesweep.paimon.survey import Partition, Survey, survey_partitions
from lakesweep.paimon.table import Branch
from lakesweep.progress import SILENT, Progress

#: Says which of the partitions that are there now are to go, by their bytes.
Choose = Callable[[Survey], Collection[bytes]]

#: The identifier of commits that no stream of checkpoints numbers.
_BATCH_IDENTIFIER = 2**63 - 1
_VERSION = 3
#: What a commit hands on from the one before it, if it says so.
_CARRIED = ("watermark", "properties")


@dataclass(frozen=True, slots=True)
class Dropped:
    """The commit that dropped partitions, None where there was nothing to drop."""

    snapshot: Snapshot | None
    partitions: tuple[Partition, ...]


def drop_partitions(
    branch: Branch,
    choose: Choose,
    *,
    operation: str | None = None,
    known: Survey | None = None,
    progress: Progress = SILENT,
) -> Dropped:
    """Drop the partitions that `choose` names of the newest snapshot, in one commit.

    It is asked again whenever another commit came first, so it always speaks of what is there.
    `known` is a survey that saves reading the same snapshot again; `operation` is what the
    snapshot calls this.
    """
    dropper = _Dropper(branch, choose, operation, known, progress)
    snapshot = commit(branch, dropper.prepare)
    return Dropped(snapshot, dropper.chosen if snapshot is not None else ())


class _Dropper:
    """Prepares a commit on any snapshot; `chosen` is what the last one was about."""

    def __init__(
        self,
        branch: Branch,
        choose: Choose,
        operation: str | None,
        known: Survey | None,
        progress: Progress,
    ) -> None:
        self._branch = branch
        self._choose = choose
        self._operation = operation
        self._known = known
        self._progress = progress
        self.chosen: tuple[Partition, ...] = ()

    def prepare(self, latest: Snapshot) -> Prepared | None:
        survey = self._survey(latest)
        wanted = set(self._choose(survey))
        targets = [data for data in survey.partitions if data in wanted]
        self.chosen = tuple(survey.partitions[data] for data in targets)
        if not targets:
            return None
        deletions = find_deletions(self._branch, survey, targets)
        formats = (survey.state.list_format, deletions.format)
        check_alike(self._branch.table.address.path, formats)
        files = NewFiles(self._branch)
        try:
            return Prepared(self._document(survey, deletions, files), files)
        except LakesweepError:
            files.remove()
            raise

    def _survey(self, latest: Snapshot) -> Survey:
        if self._known is None or self._known.snapshot.raw != latest.raw:
            self._known = survey_partitions(self._branch, latest, self._progress, known=self._known)
        return self._known

    def _document(self, survey: Survey, deletions: Deletions, files: NewFiles) -> dict[str, Any]:
        """Write everything that the snapshot names, and then what it says itself."""
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


def _millis(branch: Branch) -> int:
    return int(branch.table.clock.now().timestamp() * 1000)


def _total_before(survey: Survey) -> int:
    """The rows of a snapshot; very old ones do not say them."""
    said = survey.snapshot.total_record_count
    return sum(each.rows for each in survey.partitions.values()) if said is None else said


def _carried(latest: Snapshot, document: Mapping[str, Any]) -> dict[str, Any]:
    carried = {name: latest.raw.get(name) for name in _CARRIED}
    carried["nextRowId"] = latest.next_row_id or 0
    if latest.schema_id == document["schemaId"]:  # statistics are about one schema
        carried["statistics"] = latest.statistics
    return carried


def _index_manifest(
    branch: Branch, latest: Snapshot, chosen: Collection[Partition], files: NewFiles
) -> str | None:
    """The index files of all other partitions: the same manifest where none goes."""
    name = latest.index_manifest
    if name is None:
        return None
    path = branch.layout.manifest(name)
    data = branch.table.read(path)
    least = branch.layout.least_indexes(latest.total_record_count)
    read_index_manifest(path, data, least=least)  # it checks
    rows, gone = read_rows(path, data), {partition.data for partition in chosen}
    kept = [row for row in rows if row["_PARTITION"] not in gone]
    if len(kept) == len(rows):
        return name
    return files.index_manifest(kept, read_format(path, data))
