"""The partitions of a snapshot: what each holds, and how new it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.commit.manifest_rows import ManifestState, read_row_entries, read_state
from lakesweep.paimon.manifests.entries import ADD
from lakesweep.paimon.manifests.row_formats import Row
from lakesweep.paimon.model.binary_row import Value
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.progress import SILENT, Progress

WORKERS = 16

_SUMS = ("files", "rows", "size_bytes")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition with live files; `newest_millis` is None if a file has no creation time."""

    data: bytes
    values: tuple[Value, ...]
    path: str
    files: int
    rows: int
    size_bytes: int
    newest_millis: int | None


@dataclass(frozen=True)
class SnapshotPartitions:
    """The partitions of one snapshot by their bytes, and the sums of each of its manifests."""

    state: ManifestState
    partitions: dict[bytes, Partition]
    sums: Mapping[str, pa.Table] = field(repr=False)

    def has_any(self, manifest: Row, partitions: pa.Array) -> bool:
        """Whether a manifest has entries of these partitions."""
        sums = self.sums[manifest["_FILE_NAME"]]
        if not sums.num_rows:
            return False
        return bool(pc.any(pc.is_in(sums["partition"], value_set=partitions)).as_py())

    @property
    def snapshot(self) -> PaimonSnapshot:
        return self.state.snapshot


def list_partitions(
    branch: PaimonBranch,
    snapshot: PaimonSnapshot,
    progress: Progress = SILENT,
    *,
    known: SnapshotPartitions | None = None,
) -> SnapshotPartitions:
    """Read all manifests of a snapshot, and total them by partition.

    Manifests never change, so those `known` from another snapshot are not read again.
    """
    state = read_state(branch, snapshot)
    sums: dict[str, pa.Table] = {}
    tally = _Tally()
    with progress.task("read", unit="manifests", total=len(state.manifests)) as task:
        old = {} if known is None else known.sums
        unread = [each for each in state.manifests if each["_FILE_NAME"] not in old]
        new = branch.table.map_manifests(partial(_sums, branch), unread, WORKERS)
        for manifest in state.manifests:
            name = manifest["_FILE_NAME"]
            found = old[name] if name in old else next(new)
            sums[name] = found
            tally.add(found)
            task.advance(1)
    return SnapshotPartitions(state, tally.partitions(branch), sums)


def _sums(branch: PaimonBranch, manifest: Row) -> pa.Table:
    """By partition: files, rows and bytes added minus those deleted, and the newest time."""
    parts = [_signed(batch) for batch in read_row_entries(branch.table, manifest)]
    if not parts:
        return pa.table({})
    grouped = pa.Table.from_batches(parts).group_by("partition")
    sums = [(name, "sum") for name in _SUMS]
    return grouped.aggregate([*sums, ("time", "max"), ("unknown", "max")])


def _signed(batch: pa.RecordBatch) -> pa.RecordBatch:
    signs = pc.if_else(pc.equal(batch["kind"], ADD), 1, -1).cast(pa.int64())
    columns = {
        "partition": batch["partition"],
        "files": signs,
        "rows": pc.multiply(signs, batch["rows"].fill_null(0)),
        "size_bytes": pc.multiply(signs, batch["size_bytes"]),
        "time": batch["creation_time"],
        "unknown": batch["creation_time"].is_null(),
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


class _Tally:
    """Sums over many manifests, by partition."""

    def __init__(self) -> None:
        self._sums: dict[bytes, list[int]] = {}
        self._newest: dict[bytes, int | None] = {}

    def add(self, sums: pa.Table) -> None:
        for row in sums.to_pylist():
            data = row["partition"]
            numbers = [row[f"{name}_sum"] for name in _SUMS]
            known = self._sums.get(data, [0] * len(_SUMS))
            self._sums[data] = [a + b for a, b in zip(known, numbers, strict=True)]
            self._add_time(data, None if row["unknown_max"] else row["time_max"])

    def _add_time(self, data: bytes, millis: int | None) -> None:
        """A partition is as new as its newest file; one unknown time makes its own unknown."""
        known = self._newest.get(data, millis)
        self._newest[data] = None if known is None or millis is None else max(known, millis)

    def partitions(self, branch: PaimonBranch) -> dict[bytes, Partition]:
        naming = branch.layout.partitioning
        found = {}
        for data, (files, rows, size_bytes) in self._sums.items():
            if files > 0:
                values = naming.decode(data)
                found[data] = Partition(
                    data, values, naming.path(values), files, rows, size_bytes, self._newest[data]
                )
        return found


class PartitionTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What some partitions hold together."""

    partitions: int
    files: int
    rows: int
    size_bytes: int

    @classmethod
    def of(cls, partitions: Sequence[Partition]) -> PartitionTotals:
        return PartitionTotals(
            partitions=len(partitions),
            files=sum(each.files for each in partitions),
            rows=sum(each.rows for each in partitions),
            size_bytes=sum(each.size_bytes for each in partitions),
        )
