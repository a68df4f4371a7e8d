"""The sources of roots that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakesweep.config import (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    IcebergScanRoot,
    LakefsRoot,
    LakesweepRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
    Root,
)
from lakesweep.errors import ConfigError
from lakesweep.sweep.iceberg_roots import CatalogRoots, MetadataRoots
from lakesweep.sweep.iceberg_scan import Listing, ScanRoots
from lakesweep.sweep.lakefs_roots import LakefsRoots, configured_openers
from lakesweep.sweep.other_roots import PinnedRoots
from lakesweep.sweep.paimon_roots import PaimonRoots
from lakesweep.sweep.realm_roots import RealmRoots
from lakesweep.sweep.roots import RootSource

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake

#: Who tells which sources a lake has; `root_sources`, unless roots come from elsewhere.
Sources = Callable[["Stores", "Lake", Listing], Sequence[RootSource]]

#: What may reach into a lake that another lake names. A scan finds what the listing of its own lake
#: has.
_REACHING = (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    LakefsRoot,
    LakesweepRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
)


#: Who opens what the realm of a root holds.
OpenRealm = Callable[[LakesweepRoot], "Catalogs"]


def _no_realms(root: LakesweepRoot) -> Catalogs:
    raise ConfigError(f"realm {root.realm or 'of the store'} cannot be reached from here")


def root_sources(
    stores: Stores, lake: Lake, listing: Listing, open_realm: OpenRealm = _no_realms
) -> list[RootSource]:
    """Who is asked for the roots of a lake; `listing` gives the batches of files that are there.

    A table that another lake lists may keep files here, so its roots are asked as well.
    """
    others = [root for root in lake.roots_of_others if isinstance(root, _REACHING)]
    roots = _distinct([*lake.section.roots, *others])
    return [_source(stores, lake, root, listing, open_realm) for root in roots]


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


def _source(
    stores: Stores, lake: Lake, root: Root, listing: Listing, open_realm: OpenRealm
) -> RootSource:
    match root:
        case IcebergCatalogRoot():
            return CatalogRoots(root.name, root.properties)
        case IcebergMetadataRoot():
            return MetadataRoots(stores, root.files)
        case IcebergScanRoot():
            return ScanRoots(stores, root.path, root.keep, listing)
        case LakesweepRoot():
            return RealmRoots(partial(open_realm, root), root.realm, root.catalogs)
        case PinnedRoot():
            return PinnedRoots(stores, root.file)
        case PaimonWarehouseRoot():
            return PaimonRoots(stores, root.path)
        case LakefsRoot():
            return LakefsRoots(
                stores,
                root.called,
                configured_openers(stores, root),
                lake.plans,
                without_staging=root.without_staging,
            )
