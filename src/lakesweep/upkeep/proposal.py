"""The change of metadata that an expiry makes: what to ask of the catalog, and what is left.

The updates come in the order that every server takes: statistics first, because some raise for
statistics that a removed snapshot took along, then refs, snapshots, specs and schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from lakesweep.errors import DamagedError
from lakesweep.iceberg.commits.table_handle import LoadedTable, MetadataChange
from lakesweep.iceberg.document.fields import OfSnapshot, RawDocument
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import (
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    TableUpdate,
)
from lakesweep.iceberg.manifests import manifest_specs
from lakesweep.iceberg.metadata import TableMetadata, parse_metadata, read_file
from lakesweep.untrusted.documents import Long
from lakesweep.upkeep.history import SnapshotHistory, parse_history
from lakesweep.upkeep.snapshot_retention import RetentionArguments, RetentionDecision, decide


@dataclass(frozen=True, slots=True)
class ExpiryTerms:
    """What an expiry is to do; with `clean_metadata`, unused schemas and specs are removed too."""

    retention: RetentionArguments
    clean_metadata: bool = False


@dataclass(frozen=True)
class ExpiryProposal:
    """What an expiry would do to one state of a table. Nothing has changed yet."""

    base: LoadedTable
    decision: RetentionDecision
    change: MetadataChange
    before: TableMetadata
    after: TableMetadata

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.change.updates


def propose(base: LoadedTable, terms: ExpiryTerms, now_ms: int) -> ExpiryProposal:
    """Decide from nothing what of a table expires."""
    history = load_history(base)
    decision = decide(history, terms.retention, now_ms)
    updates = tuple(_updates(base, decision))
    if terms.clean_metadata:
        left = _applied(base, updates, now_ms)
        updates += tuple(_unused(base, left))
    change = MetadataChange.of(base.document, updates)
    left = _applied(base, updates, now_ms)
    return ExpiryProposal(
        base, decision, change, table_metadata(base.location, base.document), left
    )


def load_history(table: LoadedTable) -> SnapshotHistory:
    """The snapshots and refs of a loaded table."""
    return parse_history(table.location, table.document.encode())


def table_metadata(path: str, document: RawDocument) -> TableMetadata:
    """The files that a document names; DamagedError for a view."""
    found = parse_metadata(path, document.encode())
    if not isinstance(found, TableMetadata):
        raise DamagedError(path, "is the metadata of a view, which has no snapshots")
    return found


def _applied(base: LoadedTable, updates: tuple[TableUpdate, ...], now_ms: int) -> TableMetadata:
    document = apply_table_updates(base.document, updates, now_ms=now_ms, location=base.location)
    return table_metadata(base.location, document)


def _updates(base: LoadedTable, decision: RetentionDecision) -> Iterator[TableUpdate]:
    gone = {each.id for each in decision.expiring}
    for snapshot in _statistics_of(base.document, "statistics", gone):
        yield RemoveStatistics(snapshot_id=snapshot)
    for snapshot in _statistics_of(base.document, "partition-statistics", gone):
        yield RemovePartitionStatistics(snapshot_id=snapshot)
    for ref in decision.removed_refs:
        yield RemoveSnapshotRef(ref_name=ref.name)
    if gone:
        yield RemoveSnapshots(snapshot_ids=tuple(each.id for each in decision.expiring))


def _statistics_of(document: RawDocument, name: str, gone: set[int]) -> list[int]:
    found = document.get(name, list[OfSnapshot] | None) or ()
    return list(dict.fromkeys(each.snapshot_id for each in found if each.snapshot_id in gone))


class _SchemaId(msgspec.Struct, rename="kebab"):
    schema_id: Long | None = None


class _SpecId(msgspec.Struct, rename="kebab"):
    spec_id: Long


class _SnapshotSchema(msgspec.Struct, rename="kebab"):
    snapshot_id: Long
    schema_id: Long | None = None


def _unused(base: LoadedTable, left: TableMetadata) -> Iterator[TableUpdate]:
    """Remove specs and schemas that nothing needs which stays."""
    kept = {each.id for each in left.snapshots}
    specs = _unused_specs(base, left)
    if specs:
        yield RemovePartitionSpecs(spec_ids=tuple(specs))
    schemas = _unused_schemas(base.document, kept)
    if schemas:
        yield RemoveSchemas(schema_ids=tuple(schemas))


def _unused_specs(base: LoadedTable, left: TableMetadata) -> list[int]:
    document = base.document
    specs = [each.spec_id for each in document.get("partition-specs", list[_SpecId] | None) or ()]
    # Manifests that metadata embeds name their specs only inside.
    if len(specs) <= 1 or any(each.manifest_list is None for each in left.snapshots):
        return []
    needed = {document.get("default-spec-id", int | None) or 0}
    for path in dict.fromkeys(each.manifest_list for each in left.snapshots if each.manifest_list):
        needed |= manifest_specs(path, read_file(base.stores, path), base.stores.limits)
    return [spec for spec in specs if spec not in needed]


def _unused_schemas(document: RawDocument, kept: set[int]) -> list[int]:
    """The schemas to remove; none if a snapshot that stays does not name its own."""
    snapshots = document.get("snapshots", list[_SnapshotSchema] | None) or ()
    needed = {each.schema_id for each in snapshots if each.snapshot_id in kept}
    if None in needed:
        return []
    needed.add(document.get("current-schema-id", int | None) or 0)
    schemas = document.get("schemas", list[_SchemaId] | None) or ()
    found = (each.schema_id for each in schemas)
    return [each for each in found if each is not None and each not in needed]
