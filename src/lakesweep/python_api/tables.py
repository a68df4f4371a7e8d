"""Iceberg and Paimon tables by name or address: what they reach, and how to delete from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.app import App
from lakesweep.operations.interaction import EngineName, Interaction
from lakesweep.operations.tables.iceberg import (
    IcebergFilesRequest,
    PurgedTable,
    PurgeTablePreview,
    PurgeTableRequest,
    iceberg_files,
    purge_table,
)
from lakesweep.operations.tables.paimon_expiry import (
    ExpireHistoryRequest,
    ExpiryPreview,
    ExpiryResult,
    expire_snapshots,
)
from lakesweep.operations.tables.paimon_orphans import (
    CleanOrphansRequest,
    CleanOrphansResult,
    OrphanPreview,
    clean_orphans,
)
from lakesweep.operations.tables.paimon_partitions import (
    DropPartitionsRequest,
    DropPartitionsResult,
    PartitionsPreview,
    drop_partitions,
)
from lakesweep.operations.tables.paimon_tables import MAIN, PaimonFilesRequest, paimon_files
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.paimon.expire.settle_time import SETTLE
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

    def clean_orphans(  # noqa: PLR0913 - keywords that a caller may leave out
        self,
        path: str,
        *,
        older_than: datetime | timedelta = timedelta(days=1),
        engine: str = "local",
        threads: int | None = None,
        rate: DeleteRate = UNLIMITED,
        settle: timedelta = SETTLE,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[OrphanPreview], None] | None = None,
    ) -> CleanOrphansResult:
        """Delete the orphan files of a table, a database or a warehouse.

        Only files that were last written before a moment, or longer ago than a duration.
        """
        request = CleanOrphansRequest(
            absolute_address(path),
            self._moment(older_than),
            EngineName(engine),
            rate,
            settle,
            tuple(override),
            dry_run,
            threads,
        )
        agreed = consent(confirm, yes=yes or dry_run)
        with clean_orphans(self._app, request, agreed, self._io) as cleaned:
            return cleaned.result

    def expire_snapshots(  # noqa: PLR0913 - keywords that a caller may leave out
        self,
        table: str,
        *,
        branch: str = MAIN,
        retain_min: int | None = None,
        retain_max: int | None = None,
        older_than: datetime | timedelta | None = None,
        limit: int | None = None,
        engine: str = "local",
        threads: int | None = None,
        rate: DeleteRate = UNLIMITED,
        settle: timedelta = SETTLE,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[ExpiryPreview], None] | None = None,
    ) -> ExpiryResult:
        """Expire old snapshots, and delete the files that only they need.

        What is None comes from the table's options.
        """
        cut = None if older_than is None else self._moment(older_than)
        request = ExpireHistoryRequest(
            table=absolute_address(table),
            branch=branch,
            retention=RetentionOverrides(retain_min, retain_max, cut, limit),
            rate=rate,
            settle=settle,
            overrides=frozenset(override),
            dry_run=dry_run,
            engine=EngineName(engine),
            threads=threads,
        )
        agreed = consent(confirm, yes=yes or dry_run)
        return expire_snapshots(self._app, request, agreed, self._io)

    def drop_partitions(
        self,
        table: str,
        *specs: str,
        branch: str = MAIN,
        engine: str = "local",
        threads: int | None = None,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[PartitionsPreview], None] | None = None,
    ) -> DropPartitionsResult:
        """Drop all partitions that any of the specs (`dt=2026-01-31,hr=05`) selects, in a commit.

        Their files are deleted when the snapshots that still show them expire.
        """
        request = DropPartitionsRequest(
            absolute_address(table),
            specs,
            branch,
            frozenset(override),
            dry_run,
            EngineName(engine),
            threads,
        )
        return drop_partitions(self._app, request, consent(confirm, yes=yes or dry_run), self._io)

    def _moment(self, older_than: datetime | timedelta) -> datetime:
        """A moment, or one so long ago."""
        if isinstance(older_than, datetime):
            return older_than
        return self._app.clock.now() - older_than
