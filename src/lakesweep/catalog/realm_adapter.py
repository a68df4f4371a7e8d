"""A catalog of our own as commands see those of others: names in, metadata files out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.catalog.applicable_policies import applicable_policies
from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.entities import EntityType, Table, View, join
from lakesweep.catalog.table_pointer import RealmPointer
from lakesweep.config import LakesweepRoot
from lakesweep.errors import UsageError
from lakesweep.iceberg.generic_catalog import (
    CatalogEntry,
    ForeignTable,
    Name,
    UnresolvedTable,
    table_missing,
)
from lakesweep.iceberg.policy_documents import PolicyInForce
from lakesweep.storage.stores import Stores

_KINDS = (EntityType.TABLE, EntityType.VIEW)


@dataclass(frozen=True)
class RealmCatalogAdapter:
    """One catalog of a realm. Its tables have the names under which the realm is a root."""

    catalogs: Catalogs
    catalog: Catalog
    listed_by: str

    @property
    def name(self) -> str:
        return f"{self.catalogs.realm.name}:{join((self.catalog.name,))}"

    def find(self, name: Name) -> CatalogEntry:
        found = self.look(name)
        if found is None:
            raise table_missing(self.name, name)
        return found

    def look(self, name: Name) -> CatalogEntry | None:
        view = self.catalog.snapshot(fresh=True)
        found = next((each for kind in _KINDS if (each := view.find(name, kind))), None)
        return self._entry(name, found) if isinstance(found, Table | View) else None

    def survey(self) -> Iterator[CatalogEntry | UnresolvedTable | ForeignTable]:
        return self.entries()

    def entries(self) -> Iterator[CatalogEntry]:
        view = self.catalog.snapshot(fresh=True)
        for path, found in view.all():
            if found.named.kind in _KINDS:
                (entity,) = view.load([found])
                assert isinstance(entity, Table | View)
                yield self._entry(path, entity)

    def drop(self, entry: CatalogEntry) -> None:
        name = join((self.catalog.name, *entry.name))
        raise UsageError(
            f"{name} is in a catalog of the store", hint=f"lakesweep catalog table drop {name}"
        )

    def beside(self) -> Sequence[str]:
        return ()

    def pointer(self, name: Name, stores: Stores) -> RealmPointer:
        """What commits move."""
        return RealmPointer(self.catalog, name, stores)

    def policies(self, name: Name) -> list[PolicyInForce]:
        """The policies that apply to a table."""
        return applicable_policies(self.catalogs, self.catalog, name)

    def _entry(self, name: Name, entity: Table | View) -> CatalogEntry:
        folders = () if entity.location is None else (entity.location,)
        return RealmEntry(
            self.name,
            name,
            isinstance(entity, View),
            entity.metadata_location,
            folders=folders,
            listed_by=self.listed_by,
        )


class RealmEntry(CatalogEntry):
    """A table or view, named as roots name it."""

    __slots__ = ()

    @property
    def full_name(self) -> str:
        return f"{self.catalog}.{join(self.name)}"


def find_catalog(
    open_realm: Callable[[], Catalogs], root: LakesweepRoot, name: str
) -> RealmCatalogAdapter | None:
    """The catalog `shop` or `realm:shop` of a root; None if the root has none of this name."""
    realm, colon, short = name.rpartition(":")
    if root.catalogs and short not in root.catalogs:
        return None
    catalogs = open_realm()
    if colon and realm != catalogs.realm.name:
        return None
    listed_by = "realm of the store" if root.realm is None else f"realm {root.realm}"
    for catalog in catalogs.every(fresh=True):
        if catalog.name == short and catalog.is_active:
            return RealmCatalogAdapter(catalogs, catalog, listed_by)
    return None
