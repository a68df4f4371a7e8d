"""What an expiry of Iceberg snapshots is asked, what it shows before it acts, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from lakesweep.clock import moment
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.purge import PurgePlan
from lakesweep.operations.interaction import EngineName
from lakesweep.storage.deleting.outcome_totals import FailedFile, OutcomeTotals
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.sweep.guards import Guard
from lakesweep.units import format_moment
from lakesweep.upkeep.file_index import FileIndex, HeldFiles
from lakesweep.upkeep.proposal import ExpiryProposal, ExpiryTerms
from lakesweep.upkeep.snapshot_retention import KeepReason, KeptFor, RetentionDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTablesRequest:
    """Tables to expire: by name or address, all of a catalog, or all of a lake's catalogs.

    `keep_files` changes metadata only. `metadata_out` is where the new metadata of a table without
    a catalog is written. `engine` is where lists and manifests are read.
    """

    refs: tuple[str, ...] = ()
    catalog: str | None = None
    lake: str | None = None
    terms: ExpiryTerms
    keep_files: bool = False
    metadata_out: str | None = None
    rate: DeleteRate = UNLIMITED
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False
    engine: EngineName = EngineName.LOCAL


class SnapshotLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A snapshot in a preview: what it alone holds, and why it stays or what it is."""

    snapshot_id: int
    committed: str
    expires: bool
    files: int
    bytes: int
    standing: str | None = None
    reasons: tuple[KeepReason, ...] = ()


class RefLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A branch or tag in a preview: what only it keeps."""

    name: str
    type: str
    snapshot_id: int
    expires: bool
    files: int
    bytes: int


class IcebergExpiryResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the expiry of a table ended, or what a dry run found. UNSET members are not in the JSON.

    `protected` files stay because another root references them. `quarantined` files are not
    deleted, and can be restored by the name of `plan`.
    """

    table: str
    metadata_before: str
    metadata_after: str | None
    expired_snapshots: list[int]
    retained_snapshots: list[int]
    removed_refs: list[str]
    deleted: dict[str, int]
    bytes_deleted: int
    failures: list[FailedFile] = []
    failures_omitted: int | msgspec.UnsetType = msgspec.UNSET
    absent: int | msgspec.UnsetType = msgspec.UNSET
    quarantined: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    bytes_quarantined: int | msgspec.UnsetType = msgspec.UNSET
    plan: str | msgspec.UnsetType = msgspec.UNSET
    protected: int = 0
    snapshots: list[SnapshotLine] | msgspec.UnsetType = msgspec.UNSET
    refs: list[RefLine] | msgspec.UnsetType = msgspec.UNSET
    guards: list[Guard] | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool

    @property
    def is_complete(self) -> bool:
        return not self.failures


@dataclass(frozen=True)
class IcebergExpiryPreview:
    """What an expiry is about to do.

    `planned` is the result if nothing fails. `batches` gives the files to delete (FILE_SCHEMA), and
    works only while the preview is being confirmed. `unfinished` counts interrupted runs.
    """

    decision: RetentionDecision
    planned: IcebergExpiryResult
    location: str
    bytes: Mapping[str, int]
    total_files: int
    outside: int
    unfinished: int
    changes_metadata: bool
    batches: Callable[[], Iterator[pa.RecordBatch]]


def preview_of(
    proposal: ExpiryProposal,
    plan: PurgePlan,
    index: FileIndex,
    request: ExpireTablesRequest,
    guards: list[Guard],
    *,
    unfinished: int,
) -> IcebergExpiryPreview:
    """What a plan is about to do, and with a dry run what each snapshot and ref holds."""
    is_read = request.dry_run and not request.keep_files
    planned = IcebergExpiryResult(
        **_facts(proposal),
        metadata_after=None,
        deleted={kind: count for kind, count in plan.files.items() if count},
        bytes_deleted=plan.total_bytes,
        protected=plan.protected,
        snapshots=list(snapshot_lines(proposal, index if is_read else None)),
        refs=list(ref_lines(proposal, index if is_read else None)),
        guards=guards or msgspec.UNSET,
        dry_run=request.dry_run,
    )
    return IcebergExpiryPreview(
        proposal.decision,
        planned,
        proposal.before.location,
        dict(plan.bytes),
        plan.total_files,
        plan.outside,
        unfinished,
        not proposal.is_empty,
        plan.every,
    )


def result_of(
    proposal: ExpiryProposal,
    after: LoadedTable | None,
    totals: OutcomeTotals,
    gone: Mapping[tuple[str, str], int],
    plan: str | None,
) -> IcebergExpiryResult:
    """What an expiry did; `after` is None if there was nothing to commit.

    `gone` counts files by outcome and kind.
    """
    report = totals.report()
    deleted, quarantined = _by_kind(gone, Outcome.DELETED), _by_kind(gone, Outcome.QUARANTINED)
    return IcebergExpiryResult(
        **_facts(proposal),
        metadata_after=None if after is None else after.location,
        deleted=deleted,
        bytes_deleted=report.bytes_deleted,
        quarantined=quarantined or msgspec.UNSET,
        bytes_quarantined=report.bytes_quarantined,
        plan=plan or msgspec.UNSET,
        failures=report.failures,
        failures_omitted=report.failures_omitted or msgspec.UNSET,
        absent=report.absent,
        protected=totals.counts[Outcome.REFERENCED],
        dry_run=False,
    )


def _by_kind(gone: Mapping[tuple[str, str], int], outcome: Outcome) -> dict[str, int]:
    return {kind: count for (each, kind), count in gone.items() if each == outcome and count}


def _facts(proposal: ExpiryProposal) -> dict[str, Any]:
    decision = proposal.decision
    return {
        "table": proposal.base.name,
        "metadata_before": proposal.base.location,
        "expired_snapshots": [each.id for each in decision.expiring],
        "retained_snapshots": list(decision.kept),
        "removed_refs": [each.name for each in decision.removed_refs],
    }


def snapshot_lines(proposal: ExpiryProposal, index: FileIndex | None) -> Iterator[SnapshotLine]:
    """What becomes of each snapshot, and what it alone holds if the index has read everything."""
    decision = proposal.decision
    snapshots = decision.history.snapshots
    owners = {snapshot: number for number, snapshot in enumerate(snapshots)}
    held = {} if index is None else index.held_alone(proposal.before.snapshots, owners)
    expiring = {each.id: each for each in decision.expiring}
    for snapshot in snapshots.values():
        alone = held.get(owners[snapshot.id], HeldFiles())
        gone = expiring.get(snapshot.id)
        yield SnapshotLine(
            snapshot.id,
            format_moment(moment(snapshot.timestamp_ms * 1000)),
            gone is not None,
            alone.files,
            alone.size_bytes,
            None if gone is None else gone.standing.value,
            decision.kept.get(snapshot.id, ()),
        )


def ref_lines(proposal: ExpiryProposal, index: FileIndex | None) -> Iterator[RefLine]:
    """What each ref keeps that nothing else keeps, of what stays."""
    decision = proposal.decision
    refs = decision.history.refs
    numbers = {name: number for number, name in enumerate(refs)}
    owners = {snapshot: _owner(reasons, numbers) for snapshot, reasons in decision.kept.items()}
    held = {} if index is None else index.held_alone(proposal.before.snapshots, owners)
    for name, ref in refs.items():
        alone = held.get(numbers[name], HeldFiles())
        is_gone = name not in decision.kept_refs
        yield RefLine(name, ref.type.value, ref.snapshot_id, is_gone, alone.files, alone.size_bytes)


def _owner(reasons: tuple[KeepReason, ...], numbers: Mapping[str, int]) -> int:
    """The ref that alone keeps a snapshot; a number of no ref if there are several, or none."""
    refs = {each.ref for each in reasons if each.why is not KeptFor.LIMIT}
    only = next(iter(refs)) if len(refs) == 1 else None
    return len(numbers) if only is None else numbers[only]
