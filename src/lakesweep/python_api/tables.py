"""Iceberg and Paimon tables by name or address: what they reach, and how to delete from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakesweep.app import App
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.tables.iceberg import (
    IcebergFilesRequest,
    PurgedTable,
    PurgeTablePreview,
    PurgeTableRequest,
    iceberg_files,
    purge_table,
)
from lakesweep.operations.tables.paimon_tables import PaimonFilesRequest, paimon_files
from lakesweep.python_api.values import RowStream, consent
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.units import absolute_address


@dataclass(frozen=True, slots=True)
class IcebergApi:
    """Iceberg tables and views."""

    _app: App
    _io: Interaction

    def files(self, *refs: str, unique: bool = False) -> RowStream:
        """The files that tables and views reach, in all snapshots of all branches and tags."""
        request = IcebergFilesRequest(refs, unique=unique)
        return RowStream(lambda: iceberg_files(self._app, request).batches, FILE_SCHEMA)

    def purge(
        self,
        ref: str,
        *,
        base_location: bool = False,
        drop: bool = False,
        rate: DeleteRate = UNLIMITED,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[PurgeTablePreview], None] | None = None,
    ) -> PurgedTable:
        """Delete a table or view with all that it reaches, but nothing that another table needs."""
        request = PurgeTableRequest(ref, base_location, drop, rate, frozenset(override), dry_run)
        return purge_table(self._app, request, consent(confirm, yes=yes or dry_run), self._io)


@dataclass(frozen=True, slots=True)
class PaimonApi:
    """Paimon tables, by the address of their folder."""

    _app: App
    _io: Interaction

    def files(
        self, table: str, *, branch: str | None = None, snapshot: int | None = None
    ) -> RowStream:
        """The files that a table reaches, or only the live files of one snapshot."""
        request = PaimonFilesRequest(absolute_address(table), branch, snapshot)
        return RowStream(lambda: paimon_files(self._app, request).batches, FILE_SCHEMA)
