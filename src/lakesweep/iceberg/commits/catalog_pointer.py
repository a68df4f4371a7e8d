"""What the pointers of all catalogs have in common, and how answers of AWS are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.errors import UnknownOutcomeError, UsageError
from lakesweep.iceberg.catalogs import storage_options
from lakesweep.iceberg.commits.other_services import expiring_service
from lakesweep.iceberg.commits.pointer_commit import PointedFile
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.generic_catalog import Name, client_error, full_name
from lakesweep.storage.stores import Stores, with_access

if TYPE_CHECKING:
    from lakesweep.iceberg.generic_catalog import GenericCatalogAdapter

_SERVER_FAILED = 500


@dataclass(frozen=True)
class CatalogPointer:
    """The pointer of a table, as any catalog tells it."""

    adapter: GenericCatalogAdapter
    table: Name
    stores: Stores

    @property
    def name(self) -> str:
        return full_name(self.adapter.name, self.table)

    def look(self) -> PointedFile:
        entry = self.adapter.find(self.table)
        if entry.is_view:
            raise UsageError(f"{self.name} is a view, which has no snapshots")
        return PointedFile(
            entry.metadata_path, with_access(self.stores, storage_options(entry.access))
        )

    def expired_by(self, table: LoadedTable) -> str | None:
        return expiring_service(dict(self.adapter.catalog.properties), table.document)


def refused_by_aws(pointer: CatalogPointer, error: Any, conflict: str) -> bool:
    """False for a conflict. Answers of the server's own failures leave the outcome open."""
    code = error.response.get("Error", {}).get("Code")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == conflict:
        return False
    if status >= _SERVER_FAILED:
        raise no_answer(pointer, error) from error
    raise client_error(pointer.adapter.name, pointer.table, error) from error


def no_answer(pointer: CatalogPointer, error: Exception) -> UnknownOutcomeError:
    """The error for a swap that may have taken effect."""
    return UnknownOutcomeError(
        f"catalog {pointer.adapter.name} did not confirm the commit of {pointer.name}: {error}"
    )
