"""The catalogs of a realm of our own store as roots.

Every Iceberg table and view keeps its files, even after it was dropped, within the grace period of
its catalog, and in a catalog that is being purged. Tables of other formats are not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from lakesweep.errors import EntityMissingError, ReferenceMissingError
from lakesweep.sweep.roots.root import EmptyRootSource, RootKind, RootProblem, RootRow

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs, Entity

T = TypeVar("T")
_READ_AT_ONCE = 1000

#: Opens the catalogs of a realm.
OpenCatalogs = Callable[[], "Catalogs"]


@dataclass
class RealmRoots:
    """All tables and views of the catalogs in a realm, or of the `chosen` ones."""

    open: OpenCatalogs
    realm: str | None = None
    chosen: Sequence[str] = ()
    #: The catalog and the entity id of each root that was seen.
    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "realm of the store" if self.realm is None else f"realm {self.realm}"

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        catalogs, left, found = self.open(), set(self.chosen), False
        for catalog in catalogs.every(fresh=True):
            if self.chosen and catalog.name not in self.chosen:
                continue
            left.discard(catalog.name)
            for row in self._rows(catalogs, catalog):
                found = True
                yield row
        for name in sorted(left):
            yield RootProblem(self.name, f"there is no catalog {name} in it")
        if not found and not left:
            yield EmptyRootSource(self.name, "its catalogs list no table")

    def look(self, root: RootRow) -> RootRow | None:
        catalogs = self.open()
        number, entity_id = self._places[root.name]
        try:
            catalog = catalogs.open_id(number, fresh=True)
            entity = _find(catalog, entity_id)
        except (EntityMissingError, ReferenceMissingError):
            return None
        return None if entity is None else self._row(root.name, entity)

    def _rows(self, catalogs: Catalogs, catalog: Catalog) -> Iterator[RootRow]:
        for label, entity in entities_of(catalogs, catalog):
            name = f"{catalogs.realm.name}:{label}"
            self._places[name] = (catalog.id, entity.id)
            yield self._row(name, entity)

    def _row(self, name: str, entity: Entity) -> RootRow:
        from lakesweep.catalog import GenericTable, View
        from lakesweep.catalog.containers.locations import location_of

        folder = location_of(entity)
        folders = () if folder is None else (folder,)
        if isinstance(entity, GenericTable):
            return RootRow(name, RootKind.FOREIGN, "", self.name, locations=folders)
        kind = RootKind.ICEBERG_VIEW if isinstance(entity, View) else RootKind.ICEBERG_TABLE
        return RootRow(name, kind, metadata_of(entity), self.name, locations=folders)


def entities_of(catalogs: Catalogs, catalog: Catalog) -> Iterator[tuple[str, Entity]]:
    """All entities of a catalog that keep files, dropped or not, as of one commit, with names."""
    from lakesweep.catalog.entities import STORED_KINDS, join

    try:
        view = catalog.snapshot(fresh=True)
    except ReferenceMissingError:
        _check_gone(catalogs, catalog)
        return
    top = catalog.name if catalog.is_active else f"{catalog.name}~{catalog.id}"
    live = ((path, found) for path, found in view.all() if found.named.kind in STORED_KINDS)
    for some in _chunks(live):
        entities = view.load([found for _, found in some])
        for (path, _), entity in zip(some, entities, strict=True):
            yield join((top, *path)), entity
    for dropped in _chunks(each for _, each in view.dropped(catalog.now())):
        for each, entity in zip(dropped, view.load_dropped(dropped), strict=True):
            yield f"{join((top, *each.path))} dropped {each.id}", entity


def metadata_of(entity: Entity) -> str:
    """The metadata file of a table or view."""
    from lakesweep.catalog import Table, View

    assert isinstance(entity, Table | View)
    return entity.metadata_location


def _check_gone(catalogs: Catalogs, catalog: Catalog) -> None:
    """A catalog without content was deleted in the meantime; otherwise something is very wrong."""
    with suppress(EntityMissingError):
        now = catalogs.open_id(catalog.id, fresh=True)
        if now.is_active:
            now.snapshot(fresh=True)


def _find(catalog: Catalog, number: int) -> Entity | None:
    view = catalog.snapshot(fresh=True)
    with suppress(EntityMissingError):
        return view.by_id(number)
    dropped = [each for _, each in view.dropped(catalog.now()) if each.id == number]
    return view.load_dropped(dropped)[0] if dropped else None


def _chunks(found: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(found, _READ_AT_ONCE)):
        yield some
