"""`lakesweep paimon orphans`: delete orphan files of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import (
    DryRun,
    Overrides,
    RateLimitOptions,
    Yes,
    absolute_address,
)
from lakesweep.cli.paimon.orphan_cleaners import (
    FailedTables,
    LocalCleaner,
    OrphanCleaner,
    OrphansFound,
    open_spark_cleaner,
)
from lakesweep.cli.render.output import TextTable
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import format_count, format_moment, format_size, parse_moment

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from lakesweep.paimon.model.external_paths import TableGroup
    from lakesweep.paimon.model.file_kinds import PaimonKind
    from lakesweep.paimon.model.warehouse import Warehouse

_LEAST_AGE = timedelta(hours=1)
_SHOWN = 20


@dataclass(frozen=True)
class OrphanOptions:
    """Which orphans go, and whether in earnest."""

    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Only files last written before: 1d ago, or an RFC 3339 time.",
        ),
    ] = "1d"
    engine: Annotated[
        EngineName,
        typer.Option(
            help="Where it runs: local is this process, without Java; spark takes large tables."
        ),
    ] = EngineName.LOCAL
    dry_run: DryRun = False
    yes: Yes = False
    override: Overrides = None

    def cut(self, now: datetime) -> datetime:
        """The time that orphans were written before; refused where a commit may be under way."""
        cut = parse_moment(self.older_than, now)
        if cut > now - _LEAST_AGE and "grace" not in self.overrides:
            raise RefusedError(
                "grace",
                f"--older-than {self.older_than} is less than an hour ago: files of commits that "
                "are under way would go; nothing was deleted",
                hint="wait, or --override grace if nobody writes",
            )
        return cut

    @property
    def overrides(self) -> Collection[str]:
        return self.override or ()


def orphans(
    context: Context,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|WAREHOUSE",
            help="Address of the folder of a table, a database or a warehouse.",
            show_default=False,
        ),
    ],
    cleaning: OrphanOptions,
    pace: RateLimitOptions,
) -> None:
    """Delete files that no snapshot, tag, changelog or branch names.

    What is stored is listed first, then all that is used is read; if anything of it cannot be read,
    nothing of the table is deleted. Only files go whose names Paimon writes, and that are old
    enough not to belong to a commit under way; other names are told and stay. Before each batch
    of deletes new snapshots are looked for. Empty buckets and partitions go as well.
    """
    from lakesweep.paimon.model.warehouse import find_tables

    cut = cleaning.cut(context.clock.now())
    path = absolute_address(table)
    found = find_tables(context.app.stores, path, context.clock)
    with ExitStack() as stack:
        run = _Run(context, found, cut, stack)
        groups = [group for group in found.groups() if run.is_apart(group, cleaning.overrides)]
        cleaner = _cleaner(context, cleaning, path, pace, stack)
        run.plan(groups, cleaner)
        run.say_plan()
        if cleaning.dry_run:
            run.show_dry_run()
        else:
            if run.total_files:
                files = format_count(run.total_files, "file")
                context.confirm(f"Delete {files}, {run.size}?", yes=cleaning.yes)
            run.remove(cleaner)
        if run.is_incomplete:
            raise typer.Exit(IncompleteError.exit_code)


def _cleaner(
    context: Context, cleaning: OrphanOptions, path: str, pace: RateLimitOptions, stack: ExitStack
) -> OrphanCleaner:
    match cleaning.engine:
        case EngineName.LOCAL:
            return LocalCleaner(context, pace, stack)
        case EngineName.SPARK:
            return open_spark_cleaner(context, path, cleaning.overrides, pace, stack)


class _Run:
    """One call over one or many tables. A table that fails does not stop the others.

    What it writes to disk goes when the stack is left.
    """

    def __init__(self, context: Context, found: Warehouse, cut: datetime, stack: ExitStack) -> None:
        from lakesweep.paimon.orphans.orphan_files import OrphanOutcome

        self._context = context
        self._found = found
        self._cut = cut
        self._plans: list[OrphansFound] = []
        self._failures = list(found.failures)
        self._outcome = OrphanOutcome()
        stack.enter_context(self._outcome.outcomes)

    @property
    def total_files(self) -> int:
        return sum(plan.total_files for plan in self._plans)

    @property
    def size(self) -> str:
        return format_size(self._bytes_found)

    @property
    def is_incomplete(self) -> bool:
        return bool(self._failures or self._outcome.tally.failed)

    def is_apart(self, group: TableGroup, overrides: Collection[str]) -> bool:
        """Whether no table that is not known may share the folders of these; else they fail."""
        try:
            if "foreign" not in overrides:
                self._found.check_shared(group)
        except LakesweepError as error:
            self._fail(FailedTables([table.address.path for table in group.tables], error))
            return False
        return True

    def plan(self, groups: Sequence[TableGroup], cleaner: OrphanCleaner) -> None:
        """Find the orphans of tables that are cleaned together."""
        for found in cleaner.plan(groups, self._cut) if groups else ():
            if isinstance(found, FailedTables):
                self._fail(found)
            else:
                self._plans.append(found)

    def say_plan(self) -> None:
        say = self._context.output.say
        tables = format_count(sum(len(plan.tables) for plan in self._plans), "table")
        say(f"orphans of {tables}, last written before {format_moment(self._cut)}")
        counts: Counter[PaimonKind] = sum((plan.files for plan in self._plans), Counter())
        for kind, files in sorted(counts.items()):
            say(f"  {files:>12,}  {kind}")
        say(f"  {self.total_files:>12,}  in all, {self.size}")
        unknown = list(self._unknown())
        if unknown:
            count = sum(plan.unknown.count for plan in self._plans)
            say(f"{format_count(count, 'file')} with names that are not Paimon's, which stay:")
            for path in unknown[:_SHOWN]:
                say(f"  {path}")
        for failure in self._failures:
            say(f"{failure.table}: {failure.error.message}")

    def show_dry_run(self) -> None:
        document = {**self._document(), "dry_run": True}
        self._context.output.report(document, self._orphans())
        if self.total_files:
            self._context.output.say(
                "nothing was deleted; run the same with --yes in place of --dry-run"
            )

    def remove(self, cleaner: OrphanCleaner) -> None:
        """Delete what was found, and show what became of it."""
        for failed in cleaner.remove(self._outcome):
            self._fail(failed)
            self._context.output.say(f"{failed.tables[0]}: {failed.error.message}")
        self._show_outcome()

    def _show_outcome(self) -> None:
        output, tally = self._context.output, self._outcome.tally
        if self._context.settings.json:
            output.report({**self._document(), "dry_run": False}, self._outcome.outcomes.batches())
            return
        counts = {
            "found": self.total_files,
            "deleted": tally.deleted,
            "absent": tally.absent,
            "used meanwhile": self._outcome.spared,
            "failed": tally.failed,
        }
        rows = [(name, f"{count:,}") for name, count in counts.items()]
        rows.append(("freed", format_size(tally.bytes_deleted)))
        rows.append(("empty folders", f"{self._outcome.folders:,}"))
        output.result({}, TextTable(("outcome", "files"), rows, numbers=frozenset({"files"})))
        for failure in tally.failures[:_SHOWN]:
            output.say(f"{failure.path}: {failure.reason}")

    def _document(self) -> dict[str, object]:
        return {
            **self._outcome.tally.document(),
            "tables": [table.address.path for plan in self._plans for table in plan.tables],
            "cut": self._cut,
            "found": self.total_files,
            "bytes_found": self._bytes_found,
            "spared": self._outcome.spared,
            "folders_removed": self._outcome.folders,
            "unknown": list(self._unknown()),
            "unknown_omitted": sum(
                plan.unknown.count - len(plan.unknown.paths) for plan in self._plans
            ),
            "failed_tables": [
                {"table": failure.table, "reason": failure.error.message}
                for failure in self._failures
            ],
        }

    @property
    def _bytes_found(self) -> int:
        return sum(plan.total_bytes for plan in self._plans)

    def _unknown(self) -> Iterator[str]:
        return (path for plan in self._plans for path in plan.unknown.paths)

    def _orphans(self) -> Iterator[pa.RecordBatch]:
        return (batch for plan in self._plans for batch in plan.batches())

    def _fail(self, failed: FailedTables) -> None:
        from lakesweep.paimon.model.warehouse import FailedTable

        if self._found.is_one_table and not self._plans:
            raise failed.error
        self._failures += [FailedTable(table, failed.error) for table in failed.tables]
