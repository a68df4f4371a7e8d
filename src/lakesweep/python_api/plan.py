"""A stored plan: its totals, files and evidence, and carrying it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.app import App
from lakesweep.operations.interaction import EngineName, Interaction, choose_engine
from lakesweep.operations.lakes.apply import (
    ApplyPlanRequest,
    ApplyPlanResult,
    ApplyPreview,
    apply_plan,
)
from lakesweep.operations.lakes.explain import (
    FileExplanation,
    ObjectExplanations,
    explain_file,
    explain_object,
)
from lakesweep.operations.lakes.plan_view import (
    PlanFilesRequest,
    PlanView,
    find_plan,
    plan_files,
    plan_page,
    view_plan,
)
from lakesweep.operations.lakes.quarantine import RestoreResult, restore_quarantine
from lakesweep.python_api.values import RowStream, consent, html_facts, html_table
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The columns of a plan's files. The hashes that sweeps match by are left out.
FILES = pa.schema([field for field in VERDICTS if field.name not in {"h1", "h2"}])


class Plan:
    """The verdicts of one run over a lake or a repository. They never change."""

    def __init__(self, app: App, io: Interaction, name: str, kind: PlanKind) -> None:
        self._app = app
        self._io = io
        self._kind = kind
        self.name = name

    @property
    def view(self) -> PlanView:
        """The document of the plan and its state now."""
        return view_plan(self._app, self.name, self._kind)

    @cached_property
    def _document(self) -> PlanView:
        return self.view

    @property
    def state(self) -> str:
        """`ready`, `applying`, `applied` or `expired`."""
        return self.view.state.value

    def files(
        self,
        verdict: Verdict | str | None = None,
        reason: Reason | str | None = None,
        table: str | None = None,
    ) -> RowStream:
        """The files with their verdicts, those to delete first."""
        request = PlanFilesRequest(
            self.name,
            self._kind,
            None if verdict is None else Verdict(verdict),
            None if reason is None else Reason(reason),
            table,
        )
        return RowStream(lambda: _public(plan_files(self._app, request)), FILES)

    def to_spark(self, spark: SparkSession, verdict: Verdict | str = Verdict.DELETE) -> DataFrame:
        """The files of one verdict as a Spark DataFrame, read by the executors."""
        from lakesweep.spark.datasets import read
        from lakesweep.spark.executor_access import ExecutorAccess
        from lakesweep.spark.settings import suggested_tasks

        found = find_plan(self._app, self.name, self._kind)
        access = ExecutorAccess(self._app.stores, self._app.catalogs, suggested_tasks(spark))
        return read(spark, found.dataset(Verdict(verdict).value), access, FILES.names)

    def explain(self, path: str) -> FileExplanation | ObjectExplanations:
        """Why a file is kept or deleted, with the evidence."""
        explain = explain_file if self._kind is PlanKind.SWEEP else explain_object
        return explain(self._app, self.name, path)

    def apply(
        self,
        *,
        engine: EngineName | str | None = None,
        quarantine: bool = False,
        rate: DeleteRate = UNLIMITED,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[ApplyPreview], None] | None = None,
    ) -> ApplyPlanResult:
        """Delete or quarantine the files that nothing references now. A plan is applied once."""
        request = ApplyPlanRequest(
            self.name,
            self._kind,
            choose_engine(self._app, engine),
            rate,
            quarantine=quarantine,
            overridden=tuple(override),
            dry_run=dry_run,
        )
        return apply_plan(self._app, request, consent(confirm, yes=yes or dry_run), self._io)

    def restore(self, *paths: str) -> RestoreResult:
        """Bring back what an apply put into quarantine: all of it, or some files and folders."""
        return restore_quarantine(self._app, self.name, tuple(paths))

    def to_html(self) -> str:
        """The plan as one page with charts, without scripts."""
        return plan_page(self.view)

    def __repr__(self) -> str:
        deleted = self._document.amount(Verdict.DELETE.value)
        size = f"{format_count(deleted.files, 'file')}, {format_size(deleted.bytes)} to delete"
        return f"<Plan {self.name} of {self._document.lake}: {size}>"

    def _repr_html_(self) -> str:
        view = self.view
        facts = html_facts(
            [
                ("plan", view.plan),
                ("lake", view.lake),
                ("state", view.state.value),
                ("expires", format_moment(view.expires)),
                ("guards", ", ".join(guard.name for guard in view.guards) or "none"),
            ]
        )
        rows = [
            (verdict, reason, totals.files, format_size(totals.bytes))
            for verdict, reasons in view.totals.items()
            for reason, totals in reasons.items()
        ]
        return facts + html_table(("verdict", "reason", "files", "size"), rows)


def _public(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(FILES.names)
