"""Every file that a table or view reaches, as a stream of Arrow batches.

The order is that of `marks.walk`: files before their manifest, manifests before their lists,
the current metadata last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import ICEBERG_LEVELS, IcebergMetadataLevel
from lakesweep.iceberg.metadata import Metadata
from lakesweep.marks.pointers import pointer_to
from lakesweep.marks.unreadable import Tolerance
from lakesweep.marks.walk import Walk, mark_source
from lakesweep.storage.file_batches import coalesce_batches
from lakesweep.storage.stores import Keyring, Stores

#: What is above the manifests is read by one process; manifests may be read by several.
UPPER_LEVELS, MANIFEST_LEVEL = ICEBERG_LEVELS[:-1], ICEBERG_LEVELS[-1]


def reached_files(
    stores: Stores, metadata: Metadata, tolerance: Tolerance, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """All files that the metadata reaches, as FILE_SCHEMA, children before parents."""
    walk = start_walk(stores, metadata, tolerance, workers=workers)
    yield from coalesce_batches(walk.files(ICEBERG_LEVELS))


def start_walk(
    stores: Stores, metadata: Metadata, tolerance: Tolerance, *, workers: int = 16
) -> Walk:
    """A walk that has entered a table or view by metadata that was read before."""
    walk = Walk(Keyring(stores), tolerance, workers)
    level = IcebergMetadataLevel(walk.keyring)
    pointer = pointer_to(metadata.path, IcebergKind.METADATA)
    found = level.complete(pointer, metadata)
    if found.hint_problem is not None:
        tolerance.meet(found.hint_problem)
    walk.enter(mark_source(level, pointer, found))
    return walk
