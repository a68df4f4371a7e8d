"""The root sources that a configuration names: the table of kinds, and pinned lists."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from lakesweep.errors import ConfigError, DamagedError, UsageError
from lakesweep.marks.pins import read_pins
from lakesweep.storage.address import parse
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.iceberg_scan import ListedFiles, ScanRoots
from lakesweep.sweep.roots.lakefs import LakefsRoots, configured_openers
from lakesweep.sweep.roots.own_catalog import RealmRoots
from lakesweep.sweep.roots.paimon import PaimonRoots
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow, RootSource

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake

#: Creates the sources of a lake; `root_sources`, unless roots come from elsewhere.
RootSourceFactory = Callable[["Stores", "Lake", ListedFiles], Sequence[RootSource]]

#: Kinds of roots of other lakes that may reference files in this one. A scan only finds what its
#: own lake's listing has.
_REACHING = (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    LakefsRoot,
    LakesweepRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
)


#: Opens the catalogs in the realm of a root.
OpenRealm = Callable[[LakesweepRoot], "Catalogs"]


def _no_realms(root: LakesweepRoot) -> Catalogs:
    raise ConfigError(f"realm {root.realm or 'of the store'} cannot be reached from here")


def root_sources(
    stores: Stores, lake: Lake, listing: ListedFiles, open_realm: OpenRealm = _no_realms
) -> list[RootSource]:
    """The root sources of a lake; `listing` returns the batches of listed files.

    A table that another lake lists may keep files here, so the roots of other lakes are included.
    """
    others = [root for root in lake.roots_of_others if isinstance(root, _REACHING)]
    roots = _distinct([*lake.section.roots, *others])
    return [_source(stores, lake, root, listing, open_realm) for root in roots]


def _distinct(roots: Sequence[Root]) -> Iterator[Root]:
    """Each root once, and all metadata files as one: sources are identified by name."""
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
    stores: Stores, lake: Lake, root: Root, listing: ListedFiles, open_realm: OpenRealm
) -> RootSource:
    match root:
        case IcebergCatalogRoot():
            return CatalogRoots(root.name, root.properties, stores.load.catalog(root.name))
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


@dataclass(frozen=True)
class PinnedRoots:
    """A list of addresses: each keeps the file of that name, and everything below it."""

    stores: Stores
    file: str

    @property
    def name(self) -> str:
        return f"pinned {self.file}"

    def collect(self) -> Iterator[RootRow | RootProblem]:
        yield self._row()

    def look(self, _: RootRow) -> RootRow | None:
        return self._row()

    def _row(self) -> RootRow:
        pins = read_pins(self.stores, self.file)
        for pin in pins:
            _check(self.file, pin)
        version = hashlib.sha256("\n".join(pins).encode()).hexdigest()
        return RootRow(self.file, RootKind.PINNED, version, self.name, locations=tuple(pins))


def _check(file: str, pin: str) -> None:
    try:
        parse(pin)
    except UsageError as error:
        raise DamagedError(file, error.message, hint=error.hint) from error
