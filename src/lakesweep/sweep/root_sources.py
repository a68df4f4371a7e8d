"""The sources of roots that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakesweep.config import (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    IcebergScanRoot,
    LakefsRoot,
    LakeSection,
    PaimonWarehouseRoot,
    PinnedRoot,
    Root,
)
from lakesweep.sweep.iceberg_roots import CatalogRoots, MetadataRoots
from lakesweep.sweep.iceberg_scan import Listing, ScanRoots
from lakesweep.sweep.other_roots import ForeignRoots, PinnedRoots, UnreadableRoots
from lakesweep.sweep.roots import RootSource

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

#: Who tells which sources a lake has; `root_sources`, unless roots come from elsewhere.
Sources = Callable[["Stores", LakeSection, Listing], Sequence[RootSource]]


def root_sources(stores: Stores, lake: LakeSection, listing: Listing) -> list[RootSource]:
    """Who is asked for the roots of a lake; `listing` gives the batches of files that are there."""
    return [_source(stores, root, listing) for root in _distinct(lake.roots)]


def _distinct(roots: Sequence[Root]) -> Iterator[Root]:
    """Each root once, and all metadata files as one: sources are told apart by their names."""
    known: list[Root] = []
    files = dict.fromkeys(
        path for root in roots if isinstance(root, IcebergMetadataRoot) for path in root.files
    )
    for root in roots:
        if isinstance(root, IcebergMetadataRoot):
            root = root.model_copy(update={"files": tuple(files)})  # noqa: PLW2901
        if root not in known:
            known.append(root)
            yield root


def _source(stores: Stores, root: Root, listing: Listing) -> RootSource:
    match root:
        case IcebergCatalogRoot():
            return CatalogRoots(root.name, root.properties)
        case IcebergMetadataRoot():
            return MetadataRoots(stores, root.files)
        case IcebergScanRoot():
            return ScanRoots(stores, root.path, root.keep, listing)
        case PinnedRoot():
            return PinnedRoots(stores, root.file)
        case PaimonWarehouseRoot():
            return ForeignRoots("paimon-warehouse", root.path)
        case LakefsRoot():
            reason = "lakeFS repositories cannot be read yet, so what they keep is not known"
            return UnreadableRoots(f"lakefs {root.endpoint}", reason)
