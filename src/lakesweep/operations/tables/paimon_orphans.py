"""Delete orphan files of Paimon tables: files that no snapshot, tag, changelog or branch names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.operations.interaction import SILENT_IO, Confirm, EngineName, Interaction
from lakesweep.operations.tables.paimon_protection import (
    ProtectedFiles,
    TablesInQuestion,
    guard_external_roots,
    protected_files,
    roots_to_ask,
)
from lakesweep.operations.tables.paimon_tables import guard_clock
from lakesweep.paimon.expire.settle_time import SETTLE
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.model.warehouse import FailedTable, Warehouse, find_tables
from lakesweep.paimon.orphans.orphan_files import (
    OrphanOutcome,
    OrphanPlan,
    UnrecognizedFiles,
    plan_orphans,
)
from lakesweep.storage.deleting.outcome_totals import OutcomeReport
from lakesweep.storage.options import DeleteRate
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.sweep.local_orphans import SpareOthers

#: Files of a commit in progress have no owner yet.
LEAST_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CleanOrphansRequest:
    """Files last written before `cut`, of the table, database or warehouse at an address."""

    path: str
    cut: datetime
    engine: EngineName = EngineName.LOCAL
    rate: DeleteRate = field(default_factory=DeleteRate)
    #: How long a tag may take to be written once its snapshot was read.
    settle: timedelta = SETTLE
    overridden: Collection[str] = ()
    dry_run: bool = False
    #: How many threads list, read and delete; None is as many as suit the store.
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class OrphanPreview:
    """What is about to be deleted. `unknown` are the first files with names Paimon never writes."""

    tables: int
    cut: datetime
    kinds: Mapping[PaimonKind, int]
    files: int
    size_bytes: int
    unknown: Sequence[str]
    unknown_files: int
    failures: Sequence[FailedTable]


class FailedTableReport(msgspec.Struct, frozen=True):
    """A table that could not be read or cleaned, and why."""

    table: str
    reason: str


class CleanOrphansResult(OutcomeReport, frozen=True, kw_only=True):
    """What became of the orphans of `tables`. Those in `spared` came into use and were kept."""

    tables: list[str]
    cut: datetime
    bytes_found: int
    spared: int
    folders_removed: int
    unknown: list[str]
    unknown_omitted: int
    failed_tables: list[FailedTableReport]
    dry_run: bool

    @property
    def is_complete(self) -> bool:
        return not (self.failed or self.failed_tables)


@dataclass(frozen=True, slots=True)
class CleanedOrphans:
    """The result, and every orphan: as FILE_SCHEMA after a dry run, else as OUTCOME_SCHEMA."""

    result: CleanOrphansResult
    files: Iterator[pa.RecordBatch]


class FoundOrphans(Protocol):
    """The orphans of some tables. Nothing is deleted before `OrphanCleaner.remove`."""

    @property
    def tables(self) -> Sequence[PaimonTable]: ...

    @property
    def files(self) -> Counter[PaimonKind]:
        """How many there are of each kind."""
        ...

    @property
    def unknown(self) -> UnrecognizedFiles: ...

    @property
    def total_files(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them, as FILE_SCHEMA."""
        ...


class OrphanCleaner(Protocol):
    """Finds orphans, and deletes those that it found. Used for one request."""

    def find(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[FoundOrphans | FailedTable]:
        """Files last written before `cut` that no table uses, by groups or all at once.

        A table that cannot be read completely is a failure, and none of its files is found.
        """
        ...

    def remove(self, outcome: OrphanOutcome) -> Sequence[FailedTable]:
        """Delete what was found and is still unused, then empty partitions and buckets.

        LeaseHeldError if another run is cleaning the same address; then nothing is deleted. An
        error in the middle is a failure of the tables that it concerns: some of their files may
        be deleted, and `outcome` has them.
        """
        ...


@contextmanager
def clean_orphans(
    app: App,
    request: CleanOrphansRequest,
    confirm: Confirm[OrphanPreview],
    io: Interaction = SILENT_IO,
) -> Iterator[CleanedOrphans]:
    """Delete the orphan files of Paimon tables. The files can be read while the block runs.

    A table that cannot be read completely loses nothing, and the others are cleaned; a single
    table raises its error. Refused are a `cut` less than an hour ago (guard `grace`), a clock ahead
    of the store's (`clock`), tables that may share folders with unknown ones (`foreign`) and tables
    with external folders that are not in a location of a lake (`outside`).
    """
    _check_age(request, app.clock.now())
    found = find_tables(app.stores, request.path, app.clock, threads=request.threads)
    with ExitStack() as stack:
        run = _OrphanRun(app, request, found)
        stack.enter_context(run.outcome.outcomes)
        groups = [group for group in found.groups() if run.is_apart(group)]
        cleaner = stack.enter_context(_open_cleaner(app, request, found, io))
        run.find(cleaner, groups)
        if not request.dry_run:
            run.check_clocks()
        confirm(run.preview())
        if not request.dry_run:
            run.remove(cleaner, io)
        yield CleanedOrphans(run.result(), run.files())


def _check_age(request: CleanOrphansRequest, now: datetime) -> None:
    if request.cut > now - LEAST_AGE and "grace" not in request.overridden:
        raise RefusedError(
            "grace",
            f"{format_moment(request.cut)} is less than an hour ago: files of commits in progress "
            "would be deleted; nothing was deleted",
            hint="wait, or --override grace if nothing writes to these tables",
        )


@contextmanager
def _open_cleaner(
    app: App, request: CleanOrphansRequest, found: Warehouse, io: Interaction
) -> Iterator[OrphanCleaner]:
    match request.engine:
        case EngineName.LOCAL:
            with closing(_LocalCleaner(app, request, io, found.failures)) as cleaner:
                yield cleaner
        case EngineName.SPARK:
            from lakesweep.operations.tables.purge_check import sources_of_others
            from lakesweep.sweep.paimon_orphans import OrphanSweeper, SweepOrphanCleaner

            with app.engine(request.engine.value, verbose=io.verbose) as engine:
                sweeper = OrphanSweeper(
                    app.stores,
                    engine,
                    app.runs,
                    app.clock,
                    app.plans,
                    request.path,
                    io.progress,
                    app.lakes.kept_folders,
                    roots_to_ask(app, TablesInQuestion(found.tables), request.overridden),
                    sources_of_others(app),
                )
                yield SweepOrphanCleaner(sweeper, request.overridden, request.rate)


@dataclass
class _LocalCleaner:
    """Cleans one group of tables after the other in this process."""

    app: App
    request: CleanOrphansRequest
    io: Interaction
    failed: Sequence[FailedTable] = ()
    _found: list[OrphanPlan] = field(default_factory=list)
    _protected: ProtectedFiles | None = None
    _open: ExitStack = field(default_factory=ExitStack)
    _spare: SpareOthers | None = None

    def find(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[OrphanPlan | FailedTable]:
        for group in groups:
            try:
                plan = plan_orphans(group, cut, progress=self.io.progress)
                self._found.append(self._open.enter_context(plan))
            except LakesweepError as error:
                yield from (FailedTable(table.address.path, error) for table in group.tables)
        try:
            self._protect(groups)
        except LakesweepError as error:
            # What the others need is unknown, and it may be any of the files.
            lost, self._found = self._found, []
            tables = (table for plan in lost for table in plan.tables)
            yield from (FailedTable(table.address.path, error) for table in tables)
        yield from self._found

    def _protect(self, groups: Sequence[TableGroup]) -> None:
        """Leave out what others need. All roots are read once, whatever the number of tables."""
        tables = [table for group in groups for table in (*group.tables, *group.beside)]
        question = TablesInQuestion(tables, [each.table for each in self.failed])
        files = (batch for plan in self._found for batch in plan.batches())
        overridden = self.request.overridden
        protected = protected_files(self.app, question, files, overridden, self.io)
        self._protected = self._open.enter_context(protected)
        if self._protected is not None:
            for plan in self._found:
                plan.spare(self._protected.kept)

    @contextmanager
    def _watch(self, _: OrphanPlan) -> Iterator[SpareOthers]:
        """Leaves out what other roots reference, by a look right before the first delete."""
        if self._protected is None:
            yield lambda batch: batch
            return
        if self._spare is None:
            deletion = self._open.enter_context(self._protected.deletion(iter))
            self._spare = lambda batch: deletion.divide(batch)[0]
        yield self._spare

    def remove(self, outcome: OrphanOutcome) -> Sequence[FailedTable]:
        # A dry run needs neither this nor a store, and both take longer to load than a table.
        from lakesweep.sweep.local_orphans import OrphanRemover

        app, request = self.app, self.request
        remover = OrphanRemover(
            app.stores,
            lambda: app.runs,
            app.clock,
            app.plans,
            request.path,
            request.rate,
            self.io.progress,
            self._watch,
            app.lakes.kept_folders,
        )
        return remover.remove(self._found, outcome)

    def close(self) -> None:
        """Remove what was found from disk."""
        self._open.close()


class _OrphanRun:
    """One request over any number of tables. A table that fails does not stop the others."""

    def __init__(self, app: App, request: CleanOrphansRequest, warehouse: Warehouse) -> None:
        self.outcome = OrphanOutcome()
        self._app = app
        self._request = request
        self._warehouse = warehouse
        self._found: list[FoundOrphans] = []
        self._failures = list(warehouse.failures)

    def is_apart(self, group: TableGroup) -> bool:
        """Whether these tables may have files in all their folders; otherwise they fail.

        No unknown table may share the folders, and external ones must be configured.
        """
        try:
            if "foreign" not in self._request.overridden:
                self._warehouse.check_shared(group)
            self._warehouse.check_roots(group)
            guard_external_roots(self._app, group.tables, self._request.overridden)
        except LakesweepError as error:
            for table in group.tables:
                self._fail(FailedTable(table.address.path, error))
            return False
        return True

    def find(self, cleaner: OrphanCleaner, groups: Sequence[TableGroup]) -> None:
        for found in cleaner.find(groups, self._request.cut) if groups else ():
            if isinstance(found, FailedTable):
                self._fail(found)
            else:
                self._found.append(found)

    def check_clocks(self) -> None:
        """Refuse if our clock is ahead of that of a store: files would look older than they are.

        The stores of the tables count, because they wrote the times that ages are taken from.
        """
        tables = (table for found in self._found if found.total_files for table in found.tables)
        for table in {table.address.child("").path: table for table in tables}.values():
            guard_clock(self._app, table, self._request.overridden)

    def remove(self, cleaner: OrphanCleaner, io: Interaction) -> None:
        # It loads datasets, which a dry run does not need.
        from lakesweep.paimon.expire.expiry import journaled
        from lakesweep.storage.deleting.journal import has_journals

        tables = [table for found in self._found for table in found.tables]
        # An expiry under way has deleted a snapshot that a tag may be about to name. What that tag
        # needs looks unused until it is written, and owners are read again before files go.
        if any(has_journals(journaled(table)) for table in tables):
            tables[0].clock.sleep(self._request.settle.total_seconds())
        for failure in cleaner.remove(self.outcome):
            self._fail(failure)
            io.notify(f"{failure.table}: {failure.error.message}")

    def preview(self) -> OrphanPreview:
        return OrphanPreview(
            tables=sum(len(found.tables) for found in self._found),
            cut=self._request.cut,
            kinds=sum((found.files for found in self._found), Counter()),
            files=self._total_files,
            size_bytes=self._total_bytes,
            unknown=self._unknown,
            unknown_files=self._unknown_files,
            failures=tuple(self._failures),
        )

    def result(self) -> CleanOrphansResult:
        return CleanOrphansResult(
            **{**msgspec.structs.asdict(self.outcome.tally.report()), "found": self._total_files},
            tables=[table.address.path for found in self._found for table in found.tables],
            cut=self._request.cut,
            bytes_found=self._total_bytes,
            spared=self.outcome.spared,
            folders_removed=self.outcome.folders,
            unknown=self._unknown,
            unknown_omitted=self._unknown_files - len(self._unknown),
            failed_tables=[
                FailedTableReport(failure.table, failure.error.message)
                for failure in self._failures
            ],
            dry_run=self._request.dry_run,
        )

    def files(self) -> Iterator[pa.RecordBatch]:
        """Every orphan, or its outcome."""
        if not self._request.dry_run:
            return self.outcome.outcomes.batches()
        return (batch for found in self._found for batch in found.batches())

    @property
    def _total_files(self) -> int:
        return sum(found.total_files for found in self._found)

    @property
    def _total_bytes(self) -> int:
        return sum(found.total_bytes for found in self._found)

    @property
    def _unknown(self) -> list[str]:
        return [path for found in self._found for path in found.unknown.paths]

    @property
    def _unknown_files(self) -> int:
        return sum(found.unknown.count for found in self._found)

    def _fail(self, failure: FailedTable) -> None:
        if self._warehouse.is_one_table and not self._found:
            raise failure.error
        self._failures.append(failure)
