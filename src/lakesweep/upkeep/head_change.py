"""What a task would change in the current snapshot of a table: files move or go, none is read.

Nothing is written here. A change names the manifests that stay, and the entries of those that take
the place of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.iceberg.commits.table_handle import MetadataChange
from lakesweep.iceberg.rewrite.manifest_entries import (
    FileFacts,
    Manifest,
    ManifestEntry,
    ManifestForm,
)
from lakesweep.iceberg.rewrite.manifest_list import DATA, ManifestRow
from lakesweep.iceberg.rewrite.snapshot_draft import SnapshotDraft, TableHead, carried_totals


@dataclass(frozen=True)
class NewManifest:
    """A manifest to write: entries that stay, and those of files that the new snapshot removes."""

    form: ManifestForm
    stay: Sequence[ManifestEntry]
    removed: Sequence[ManifestEntry] = ()


@dataclass(frozen=True)
class HeadChange:
    """A new snapshot in place of the current one. `figures` say what it does, for people."""

    head: TableHead
    operation: str
    kept: Sequence[ManifestRow]
    written: Sequence[NewManifest]
    figures: Mapping[str, int]
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.written

    def leaving(self) -> Iterator[FileFacts]:
        """The files that the new snapshot does not have."""
        return (entry.facts for each in self.written for entry in each.removed)

    def draft(self, now_ms: int) -> tuple[SnapshotDraft, MetadataChange]:
        """Write the manifests and the list; what is to be committed."""
        draft = SnapshotDraft(self.head, now_ms)
        try:
            rows = [
                draft.write_manifest(
                    each.form,
                    [entry.existing() for entry in each.stay]
                    + [entry.removed(draft.snapshot) for entry in each.removed],
                )
                for each in self.written
            ]
            # New manifests come first, as every engine writes them.
            return draft, draft.change([*rows, *self.kept], self.operation, self._summary())
        except BaseException:
            draft.discard()
            raise

    def _summary(self) -> dict[str, str]:
        removed = [entry for each in self.written for entry in each.removed]
        return {
            **self.summary,
            **removal_summary(removed),
            "manifests-created": str(len(self.written)),
            "manifests-kept": str(len(self.kept)),
            "manifests-replaced": str(len(self.head.rows) - len(self.kept)),
            **carried_totals(self.head.summary, _removed_totals(removed)),
        }


def is_any(path: str) -> bool:
    """Any file may leave the snapshot."""
    del path
    return True


def unchanged(head: TableHead, operation: str, figures: Mapping[str, int]) -> HeadChange:
    """A change that changes nothing."""
    return HeadChange(head, operation, head.rows, (), figures)


def without(
    head: TableHead,
    operation: str,
    read: Iterable[tuple[Manifest, Collection[int]]],
    figures: Mapping[str, int],
) -> HeadChange:
    """A change that removes entries of manifests, given by their positions."""
    written: list[NewManifest] = []
    replaced: set[int] = set()
    for manifest, positions in read:
        if positions:
            numbered = list(enumerate(manifest.entries))
            stay = [each for at, each in numbered if each.is_live and at not in positions]
            gone = [each for at, each in numbered if at in positions]
            written.append(NewManifest(manifest.form, stay, gone))
            replaced.add(id(manifest.row))
    kept = [row for row in head.rows if id(row) not in replaced]
    return HeadChange(head, operation, kept, written, figures)


def removal_summary(removed: Sequence[ManifestEntry]) -> dict[str, str]:
    """What the summary of a snapshot says of the files that it removes."""
    if not removed:
        return {}
    data = [each.facts for each in removed if each.facts.content == DATA]
    deletes = [each.facts for each in removed if each.facts.content != DATA]
    equality = [each for each in deletes if each.content == 2]
    vectors = [each for each in deletes if each.content == 1 and each.is_vector]
    position = [each for each in deletes if each.content == 1 and not each.is_vector]
    places = {(each.facts.partition) for each in removed}
    counts = {
        "deleted-data-files": len(data),
        "deleted-records": sum(each.records for each in data),
        "removed-delete-files": len(deletes),
        "removed-position-delete-files": len(position),
        "removed-dvs": len(vectors),
        "removed-equality-delete-files": len(equality),
        "removed-position-deletes": sum(each.records for each in (*position, *vectors)),
        "removed-equality-deletes": sum(each.records for each in equality),
        "removed-files-size": sum(each.facts.size_bytes for each in removed),
        "changed-partition-count": len(places),
    }
    return {name: str(count) for name, count in counts.items() if count}


def _removed_totals(removed: Sequence[ManifestEntry]) -> dict[str, int]:
    found = {name: int(text) for name, text in removal_summary(removed).items()}
    return {
        "total-data-files": found.get("deleted-data-files", 0),
        "total-records": found.get("deleted-records", 0),
        "total-delete-files": found.get("removed-delete-files", 0),
        "total-position-deletes": found.get("removed-position-deletes", 0),
        "total-equality-deletes": found.get("removed-equality-deletes", 0),
        "total-files-size": found.get("removed-files-size", 0),
    }
