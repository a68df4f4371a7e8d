"""Delete files that can hide no row of the current snapshot any more.

A delete applies to data files of its partition that are not newer than it; one of a spec without
partitions to all files of the table, whatever their spec. So an equality delete of such a spec
dangles only if it is not newer than any file of the whole table. What is left because bounds of
columns would have to be compared is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import Manifest, ManifestEntry
from lakesweep.iceberg.rewrite.partition_bounds import partition_key
from lakesweep.iceberg.rewrite.snapshot_draft import TableHead, spec_fields
from lakesweep.storage.address import identity
from lakesweep.upkeep.head_change import HeadChange, is_any, unchanged, without

_POSITION, _EQUALITY = 1, 2
_Place = tuple[int, tuple[Any, ...]]


def plan_dangling(head: TableHead, may_leave: Callable[[str], bool] = is_any) -> HeadChange:
    """The change that removes delete files which apply to nothing, of those that may leave."""
    deletes = [head.read(row) for row in head.manifests(lists.DELETES)]
    count = sum(1 for manifest in deletes for _ in manifest.live)
    if not count:
        return unchanged(head, "replace", {"delete_files": 0, "dangling": 0})
    facts = LiveFiles(_global_specs(head), referenced_files(deletes))
    for row in head.manifests(lists.DATA):
        facts.add(head.read(row))
    found = [
        (
            manifest,
            {
                at
                for at, entry in enumerate(manifest.entries)
                if entry.is_live
                and facts.is_dangling(manifest.form.spec, entry)
                and may_leave(entry.facts.path)
            },
        )
        for manifest in deletes
    ]
    figures = {"delete_files": count, "dangling": sum(len(positions) for _, positions in found)}
    return without(head, "replace", found, figures)


def _global_specs(head: TableHead) -> set[int]:
    """Specs without partitions: no field, or none that has values."""
    specs = spec_fields(head.table).items()
    return {
        spec for spec, fields in specs if all(each.get("transform") == "void" for each in fields)
    }


@dataclass(frozen=True)
class ReferencedDataFiles:
    """Data files that deletes name, and those of them that have a deletion vector."""

    files: frozenset[str]
    vectors: frozenset[str]


def referenced_files(deletes: Iterable[Manifest]) -> ReferencedDataFiles:
    named = [
        (identity(entry.facts.referenced), entry.facts.is_vector)
        for manifest in deletes
        for entry in manifest.live
        if entry.facts.referenced is not None
    ]
    return ReferencedDataFiles(
        frozenset(path for path, _ in named),
        frozenset(path for path, is_vector in named if is_vector),
    )


@dataclass
class LiveFiles:
    """The data files of a snapshot, as far as deletes ask for them: their sequence numbers."""

    global_specs: set[int]
    referenced: ReferencedDataFiles
    oldest: int | None = None
    oldest_in: dict[_Place, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def add(self, manifest: Manifest) -> None:
        """Take up the live files of a data manifest."""
        for entry in manifest.live:
            place = manifest.form.spec, partition_key(entry.facts.partition)
            known = self.oldest_in.get(place)
            if known is None or entry.sequence < known:
                self.oldest_in[place] = entry.sequence
            if self.oldest is None or entry.sequence < self.oldest:
                self.oldest = entry.sequence
            if self.referenced.files:
                path = identity(entry.facts.path)
                if path in self.referenced.files:
                    self.sequences[path] = min(entry.sequence, self.sequences.get(path, 2**63))

    def is_dangling(self, spec: int, delete: ManifestEntry) -> bool:
        """Whether a delete file can hide no row."""
        facts = delete.facts
        oldest = self.oldest_in.get((spec, partition_key(facts.partition)))
        if facts.content == _EQUALITY:
            oldest = self.oldest if spec in self.global_specs else oldest
            return oldest is None or delete.sequence <= oldest
        if facts.content != _POSITION:
            return False
        if facts.referenced is None:
            return oldest is None or delete.sequence < oldest
        path = identity(facts.referenced)
        sequence = self.sequences.get(path)
        if sequence is None or facts.is_vector:
            return sequence is None
        # Readers ignore position deletes of a file that has a deletion vector.
        return sequence > delete.sequence or path in self.referenced.vectors
