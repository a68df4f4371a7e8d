"""Table identifiers on the command line: a name in a catalog, or the address of a metadata file.

`IcebergTables` finds tables and views by identifier, in all catalogs that are configured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lakesweep.errors import MissingError, NotFoundError, UsageError
from lakesweep.iceberg.catalogs import IcebergCatalog, known_catalogs, open_catalog, storage_options
from lakesweep.iceberg.generic_catalog import CatalogEntry
from lakesweep.iceberg.metadata import TableMetadata, load_metadata
from lakesweep.storage.address import parse
from lakesweep.storage.stores import with_access

if TYPE_CHECKING:
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores


_PART = re.compile(r'"([^"]+)"|([^."]+)')
_NAME = re.compile(r'("[^"]+"|[^."]+)(\.("[^"]+"|[^."]+)){2,}')
_VERSION = re.compile(r"/v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")
_METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$")


def is_address(ref: str) -> bool:
    """Whether a REF is an address rather than a name."""
    return ref.startswith(("/", "file:")) or "://" in ref


def is_metadata_file(ref: str) -> bool:
    """Whether an address is that of a metadata file rather than of a table's folder."""
    return bool(_METADATA_FILE.search(ref))


def split_identifier(ref: str) -> tuple[str, ...]:
    """The catalog and the parts of the name after it."""
    if not _NAME.fullmatch(ref):
        raise UsageError(
            f"{ref!r} is neither catalog.namespace.table nor an address",
            hint="write catalog.namespace.table, or the address of a .metadata.json file",
        )
    return tuple(quoted or plain for quoted, plain in _PART.findall(ref))


def metadata_path(stores: Stores, ref: str) -> str:
    """The metadata file of an address.

    For the folder of a table without a catalog, it is the version that its hint names.
    """
    if is_metadata_file(ref):
        return ref
    folder = ref.rstrip("/") + "/metadata/"
    address = parse(folder + "version-hint.text")
    try:
        version = stores.open(address).read(address.key).decode("ascii", "replace").strip()
    except MissingError as error:
        raise NotFoundError(
            f"{ref} is neither a metadata file nor the folder of a table with a version hint",
            hint="give the address of the table's newest .metadata.json",
        ) from error
    found = find_version(stores, folder, version)
    if found is None:
        raise NotFoundError(f"{address.path} names version {version!r}, which has no metadata file")
    return _newest(stores, folder, found, int(version))


def _newest(stores: Stores, folder: str, found: str, version: int) -> str:
    """A hint may be stale: engines look for later versions, and so do we."""
    while (later := find_version(stores, folder, str(version + 1))) is not None:
        found, version = later, version + 1
    return found


def find_version(stores: Stores, folder: str, version: str) -> str | None:
    """The metadata file of a version in the metadata folder of a table, if there is one."""
    if not (version.isascii() and version.isdigit()):
        return None
    names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json")
    return next((folder + name for name in names if _exists(stores, folder + name)), None)


def version_of(path: str) -> int:
    """The number in the name of a metadata file of a table without a catalog."""
    found = _VERSION.search(path)
    if found is None:
        raise UsageError(f"{path} is not named like the metadata of a table without a catalog")
    return int(found[1])


def _exists(stores: Stores, path: str) -> bool:
    address = parse(path)
    try:
        stores.open(address).head(address.key)
    except MissingError:
        return False
    return True


@dataclass(frozen=True)
class TargetTable:
    """The table or view that a command names. `entry` is None if an address was given."""

    name: str
    metadata: Metadata
    stores: Stores = field(repr=False)
    entry: CatalogEntry | None = None

    @property
    def what(self) -> str:
        """`table` or `view`."""
        return "table" if isinstance(self.metadata, TableMetadata) else "view"


class IcebergTables:
    """Tables and views by name or address; `own` opens catalogs that we keep ourselves."""

    def __init__(
        self,
        stores: Stores,
        catalogs: Mapping[str, Mapping[str, str]],
        own: Callable[[str], IcebergCatalog | None] = lambda _: None,
    ) -> None:
        self._stores = stores
        self._properties = catalogs
        self._own = own
        self._catalogs: dict[str, IcebergCatalog] = {}

    def find(self, ref: str) -> TargetTable:
        """Find a table or view by its REF."""
        if is_address(ref):
            path = metadata_path(self._stores, ref)
            return TargetTable(path, load_metadata(self._stores, path), self._stores)
        catalog, *name = split_identifier(ref)
        entry = self.open(catalog).find(tuple(name))
        stores = self._stores_for(entry)
        return TargetTable(
            entry.full_name, load_metadata(stores, entry.metadata_path), stores, entry
        )

    def drop(self, target: TargetTable) -> None:
        """Drop the name of the table from its catalog."""
        if target.entry is None:
            raise UsageError(
                f"{target.name} is an address; there is no name to drop",
                hint="run without --drop, or name the table as catalog.namespace.table",
            )
        self.open(target.entry.catalog).drop(target.entry)

    def refresh(self, target: TargetTable) -> TargetTable:
        """The same table as its catalog lists it now."""
        return target if target.entry is None else self.find(target.entry.full_name)

    @property
    def stores(self) -> Stores:
        """The stores as configured, without what catalogs grant."""
        return self._stores

    @cached_property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The properties of all configured catalogs and of those in PyIceberg's configuration."""
        return {**known_catalogs(), **self._properties}

    def open(self, name: str) -> IcebergCatalog:
        """The catalog of that name, opened once."""
        if name not in self._catalogs:
            found = None if name in self.catalogs else self._own(name)
            self._catalogs[name] = found or open_catalog(
                name, self.catalogs.get(name, {}), self._stores.load.catalog(name)
            )
        return self._catalogs[name]

    def _stores_for(self, entry: CatalogEntry) -> Stores:
        return with_access(self._stores, storage_options(entry.access))
