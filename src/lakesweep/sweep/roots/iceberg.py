"""Iceberg tables and views as roots: all of a catalog, or single metadata files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.iceberg.catalogs import IcebergCatalog, open_catalog, storage_options
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, UnresolvedTable
from lakesweep.iceberg.table_identifier import metadata_path
from lakesweep.storage.wrappers.run_load import Pace, no_pace
from lakesweep.sweep.roots.iceberg_scan import later_versions
from lakesweep.sweep.roots.root import EmptyRootSource, RootKind, RootProblem, RootRow
from lakesweep.untrusted.limits import read_failure

if TYPE_CHECKING:
    from lakesweep.iceberg.generic_catalog import Name
    from lakesweep.storage.stores import Stores


class CatalogRoots:
    """Every table and view of a catalog. Entries in other formats are foreign roots."""

    def __init__(self, catalog: str, properties: Mapping[str, str], pace: Pace = no_pace) -> None:
        self._catalog_name = catalog
        self._properties = properties
        self._pace = pace
        self._catalog: IcebergCatalog | None = None
        self._names: dict[str, Name] = {}

    @property
    def name(self) -> str:
        return f"catalog {self._catalog_name}"

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        found = False
        for row in self._survey():
            found = True
            yield row
        # An empty catalog is suspicious: a wrong name or missing permissions look the same, and
        # every
        # file would seem unreferenced.
        if not found:
            yield EmptyRootSource(self.name, self._why_nothing())

    def _why_nothing(self) -> str:
        beside = ", ".join(self._open().beside())
        return f"its database holds tables of {beside}" if beside else "it lists no table"

    def _survey(self) -> Iterator[RootRow | RootProblem]:
        for found in self._open().survey():
            match found:
                case CatalogEntry():
                    self._names[found.full_name] = found.name
                    yield self._row(found)
                case UnresolvedTable():
                    self._names[found.full_name] = found.name
                    yield RootProblem(self.name, found.error.message, found.full_name)
                case ForeignTable():
                    yield RootRow(
                        found.full_name, RootKind.FOREIGN, "", self.name, locations=found.folders
                    )

    def look(self, root: RootRow) -> RootRow | None:
        found = self._open().look(self._names[root.name])
        return None if found is None else self._row(found)

    def _open(self) -> IcebergCatalog:
        if self._catalog is None:
            self._catalog = open_catalog(self._catalog_name, self._properties, self._pace)
        return self._catalog

    def _row(self, entry: CatalogEntry) -> RootRow:
        return RootRow(
            name=entry.full_name,
            kind=RootKind.ICEBERG_VIEW if entry.is_view else RootKind.ICEBERG_TABLE,
            pointer=entry.metadata_path,
            source=self.name,
            locations=entry.folders,
            access=storage_options(entry.access),
        )


class MetadataRoots:
    """Tables and views that no catalog lists, by their metadata files.

    The folder of a table without a catalog may be given instead: its version hint is followed. A
    table that is still written to moves on from the configured file, so its newest metadata is a
    root as well.
    """

    name = "metadata files"

    def __init__(self, stores: Stores, files: Sequence[str]) -> None:
        self._stores = stores
        self._files = files

    def collect(self) -> Iterator[RootRow | RootProblem]:
        for path in self._files:
            try:
                yield from self._rows(path)
            except Exception as error:
                reason = read_failure(path, error).message
                yield RootProblem(self.name, reason, path, locations=(path,))

    def look(self, root: RootRow) -> RootRow | None:
        # A configured name is kept, whether or not its file still exists.
        return self._row(root.name)

    def _rows(self, path: str) -> Iterator[RootRow | RootProblem]:
        row = self._row(path)
        later = list(later_versions(self._stores, path)) if row.pointer == path else []
        yield row
        for found in later:
            if isinstance(found, RootRow):
                yield replace(found, source=self.name, unless_known=None)
            else:
                yield replace(found, source=self.name)

    def _row(self, path: str) -> RootRow:
        pointer = metadata_path(self._stores, path)
        return RootRow(path, RootKind.ICEBERG_TABLE, pointer, self.name)
