"""The pointer of a table in a catalog of our own, for commits to its metadata."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.commits import Update
from lakesweep.catalog.entities import EntityType, Name, Table, join, split
from lakesweep.catalog.metadata_memo import memo_of
from lakesweep.errors import EntityChangedError
from lakesweep.iceberg.commits.other_services import expiring_service
from lakesweep.iceberg.commits.pointer_commit import PointedFile
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.metadata import parse_metadata
from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class RealmPointer:
    """A table entity: a commit of its catalog replaces it if it still has the version read."""

    catalog: Catalog
    table: Name
    stores: Stores

    @property
    def name(self) -> str:
        return join((self.catalog.name, *split(self.table)))

    def look(self) -> PointedFile:
        return PointedFile(self._entity().metadata_location, self.stores)

    def swap(self, before: str, after: str, document: RawDocument, /) -> bool:
        entity = self._entity()
        if entity.metadata_location != before:
            return False
        metadata = parse_metadata(after, document.encode())
        # The location must follow the document, or the catalog's index of locations is wrong.
        new = msgspec.structs.replace(
            entity, metadata_location=after, location=metadata.location, memo=None
        )
        update = Update(self.table, new, version=entity.version, memo=memo_of(metadata))
        try:
            self.catalog.apply([update])
        except EntityChangedError:
            return False
        return True

    def expired_by(self, table: LoadedTable) -> str | None:
        return expiring_service({}, table.document)

    def _entity(self) -> Table:
        found = self.catalog.snapshot(fresh=True).get(self.table, EntityType.TABLE)
        assert isinstance(found, Table)
        return found
