"""Find and delete orphan files of Paimon tables, in this process or by a sweep on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakesweep.errors import LakesweepError

if TYPE_CHECKING:
    from contextlib import ExitStack
    from datetime import datetime

    import pyarrow as pa

    from lakesweep.cli.context import Context
    from lakesweep.cli.options import RateLimitOptions
    from lakesweep.paimon.model.external_paths import TableGroup
    from lakesweep.paimon.model.file_kinds import PaimonKind
    from lakesweep.paimon.model.table import PaimonTable
    from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, OrphanPlan, UnrecognizedFiles
    from lakesweep.storage.options import DeleteRate
    from lakesweep.sweep.paimon_orphans import OrphanSweeper, SweptOrphans


class OrphansFound(Protocol):
    """The orphans of some tables, written down. Nothing is changed before they are removed."""

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


@dataclass(frozen=True)
class FailedTables:
    """Tables that stay as they are, and why."""

    tables: Sequence[str]
    error: LakesweepError


class OrphanCleaner(Protocol):
    """Finds orphans, and deletes them."""

    def plan(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[OrphansFound | FailedTables]:
        """What was last written before `cut` and is used by no table, by groups or all at once."""
        ...

    def remove(self, outcome: OrphanOutcome) -> Iterator[FailedTables]:
        """Delete what was found and still nobody uses."""
        ...


class LocalCleaner:
    """Everything in this process, one group of tables after the other."""

    def __init__(self, context: Context, pace: RateLimitOptions, stack: ExitStack) -> None:
        self._context = context
        self._pace = pace
        self._stack = stack
        self._plans: list[OrphanPlan] = []

    def plan(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[OrphansFound | FailedTables]:
        from lakesweep.paimon.orphans.orphan_files import plan_orphans

        for group in groups:
            try:
                plan = plan_orphans(group, cut, progress=self._context.progress)
            except LakesweepError as error:
                yield FailedTables(_paths(group.tables), error)
            else:
                self._plans.append(self._stack.enter_context(closing(plan)))
                yield plan

    def remove(self, outcome: OrphanOutcome) -> Iterator[FailedTables]:
        from lakesweep.paimon.orphans.orphan_files import remove_orphans

        context = self._context
        delete = self._pace.deleter(context.app.stores, context)
        for plan in self._plans:
            try:
                remove_orphans(plan, delete, outcome, progress=context.progress)
            except LakesweepError as error:
                yield FailedTables(_paths(plan.tables), error)


class SparkCleaner:
    """A sweep over the folders of all tables at once, on Spark."""

    def __init__(
        self,
        sweeper: OrphanSweeper,
        overrides: Collection[str],
        pace: DeleteRate,
    ) -> None:
        self._sweeper = sweeper
        self._overrides = overrides
        self._pace = pace
        self._found: SweptOrphans | None = None

    def plan(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[OrphansFound | FailedTables]:
        tables = [table for group in groups for table in group.tables]
        found = self._sweeper.plan(tables, cut, self._overrides)
        for failure in found.failures:
            yield FailedTables([failure.table], failure.error)
        if found.tables:
            self._found = found
            yield found

    def remove(self, outcome: OrphanOutcome) -> Iterator[FailedTables]:
        found = self._found
        if found is None:
            return
        try:
            self._sweeper.remove(found, outcome, self._pace)
        except LakesweepError as error:
            yield FailedTables(_paths(found.tables), error)


def open_spark_cleaner(
    context: Context,
    path: str,
    overrides: Collection[str],
    pace: RateLimitOptions,
    stack: ExitStack,
) -> SparkCleaner:
    """A cleaner on Spark, which ends with the stack."""
    from lakesweep.sweep.paimon_orphans import OrphanSweeper

    app = context.app
    engine = stack.enter_context(app.engine("spark", verbose=context.settings.verbose))
    sweeper = OrphanSweeper(
        app.stores, engine, app.runs, context.clock, app.plans, path, context.progress
    )
    return SparkCleaner(sweeper, overrides, pace.rate)


def _paths(tables: Sequence[PaimonTable]) -> list[str]:
    return [table.address.path for table in tables]
