"""Put the entries of many small manifests into few, sorted by partition.

Readers open every manifest whose partitions may match, so few that cover one range each are what
they need. One manifest holds one spec, and entries that were written with the same fields. A group
is rewritten only if that makes it fewer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import Manifest, ManifestEntry
from lakesweep.iceberg.rewrite.manifest_list import ManifestRow
from lakesweep.iceberg.rewrite.partition_bounds import sort_key
from lakesweep.iceberg.rewrite.snapshot_draft import TableHead
from lakesweep.untrusted.documents import parse_long
from lakesweep.upkeep.head_change import HeadChange, NewManifest

_TARGET = "commit.manifest.target-size-bytes"
_DEFAULT_TARGET = 8 * 2**20


def plan_merge(head: TableHead, target_bytes: int | None = None) -> HeadChange:
    """The change that merges manifests of the current snapshot."""
    target = target_bytes or parse_long(head.properties.get(_TARGET, "")) or _DEFAULT_TARGET
    written: list[NewManifest] = []
    replaced: set[int] = set()
    entries = 0
    for rows in _crowded(head, target):
        for manifests in _by_form([head.read(row) for row in rows]):
            merged = _merged(manifests, target)
            if len(merged) < len(manifests):
                written += merged
                replaced.update(id(each.row) for each in manifests)
                entries += sum(len(each.stay) for each in merged)
    kept = [row for row in head.rows if id(row) not in replaced]
    figures = {
        "manifests": len(head.rows),
        "manifests_replaced": len(replaced),
        "manifests_created": len(written),
        "entries": entries,
    }
    summary = {"entries-processed": str(entries)}
    return HeadChange(head, "replace", kept, written, figures, summary)


def _crowded(head: TableHead, target: int) -> Iterator[Sequence[ManifestRow]]:
    """The manifests of each spec and content that could be fewer, by their sizes alone."""
    groups: defaultdict[tuple[Any, ...], list[ManifestRow]] = defaultdict(list)
    for row in head.rows:
        groups[row[lists.CONTENT], row[lists.SPEC]].append(row)
    for rows in groups.values():
        if math.ceil(sum(row[lists.LENGTH] for row in rows) / target) < len(rows):
            yield rows


def _by_form(manifests: Sequence[Manifest]) -> Iterator[Sequence[Manifest]]:
    groups: defaultdict[tuple[Any, ...], list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        groups[manifest.form.key].append(manifest)
    yield from groups.values()


def _merged(manifests: Sequence[Manifest], target: int) -> list[NewManifest]:
    form, types = manifests[0].form, manifests[0].form.partition_types
    entries = [entry for manifest in manifests for entry in manifest.live]
    entries.sort(key=lambda entry: (sort_key(types, entry.facts.partition), entry.sequence))
    # By the bytes of entries: most of a small manifest is its header.
    size = sum(len(entry.file) for entry in entries)
    length = min(size, sum(manifest.row[lists.LENGTH] for manifest in manifests))
    count = max(1, math.ceil(length / target))
    return [NewManifest(form, part) for part in _parts(entries, count)]


def _parts(entries: Sequence[ManifestEntry], count: int) -> Iterator[Sequence[ManifestEntry]]:
    """Parts of about the same number of entries."""
    each = math.ceil(len(entries) / count)
    for first in range(0, len(entries), max(1, each)):
        yield entries[first : first + each]
