"""Check a lake for dangling references: files that are referenced but not stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import UsageError
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction, choose_engine
from lakesweep.operations.lakes.engines import open_engine, warn_of_local_plans
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.runs.run_figures import CheckRunFigures, recorded_figures
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.inspect.check import CheckResult, LakeChecker, MissingFiles, RefusedLookup
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.mark.survey import LakeSurvey, Surveyor
from lakesweep.sweep.plan.document import IncompleteRoot, incomplete_roots, unlisted_roots
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.units import format_count

_FIRST_FILES = 20


@dataclass(frozen=True, slots=True)
class CheckLakeRequest:
    """Check a lake, or what a plan listed and marked: one of them is given.

    `files` says that all missing files will be read, which a service has to know beforehand.
    """

    lake: str | None = None
    plan: str | None = None
    engine: EngineName | None = None
    files: bool = False


class CheckedRoots(msgspec.Struct, frozen=True):
    """How many roots could be read, and how many could not."""

    complete: int
    incomplete: int


class BrokenTable(msgspec.Struct, frozen=True):
    """A table with missing files, and how many of each kind."""

    table: str
    files: int
    bytes: int
    kinds: dict[str, int]


class MissingFile(msgspec.Struct, frozen=True):
    """A file that a table references and that is not stored."""

    path: str
    kind: str | None
    size_bytes: int | None
    table: str


class CheckLakeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found.

    `outside` counts referenced files outside of the lake's locations, which were not checked.
    `files` are the first missing files. `refused` counts files that the store would not look up,
    and `refusals` name the first of them.
    """

    lake: str
    run: str
    missing: int
    outside: int
    roots: CheckedRoots
    incomplete_roots: tuple[IncompleteRoot, ...]
    tables: tuple[BrokenTable, ...]
    files: tuple[MissingFile, ...]
    refused: int = 0
    refusals: tuple[RefusedLookup, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything could be looked up."""
        return not self.incomplete_roots and not self.refused


@dataclass(frozen=True, slots=True)
class CheckedLake:
    """The result of a check, how much was checked, and all missing files as batches."""

    result: CheckLakeResult
    roots: int
    references: int
    missing: Iterator[pa.RecordBatch]


@contextmanager
def check_lake(
    app: App, request: CheckLakeRequest, io: Interaction = SILENT_IO
) -> Iterator[CheckedLake]:
    """Find the missing files of a lake. They can be read until the block ends."""
    lake, plan = _subject(app, request)
    warn_of_local_plans(app, request.engine, lake, io)
    spec = {"engine": choose_engine(app, request.engine).value, "plan": request.plan}
    with run_session(
        app.runs, lake.name, RunKind.CHECK, plan=request.plan, spec=spec, plans=lake.plans
    ) as session:
        folder = f"{lake.plans}/{session.record.run}"
        try:
            with open_engine(app, request.engine, io) as engine:
                survey = _survey(app, lake, plan, engine, session, folder, io)
                found = _check(app, lake, survey, engine, folder, io)
            result = _result(app, lake, session.record.run, survey, found)
            _record(session, result, found)
            batches = read_dataset(app.stores, found.missing)
            marks = found.marks
            yield CheckedLake(result, len(marks.roots), marks.content.rows, batches)
        finally:
            remove_folder(app.stores, folder)


def _subject(app: App, request: CheckLakeRequest) -> tuple[Lake, StoredPlan | None]:
    if (request.lake is None) == (request.plan is None):
        raise UsageError("name a lake, or a plan after --plan", hint="lakesweep check --help")
    if request.lake is not None:
        return app.lake(request.lake), None
    plan = open_plan(app.stores, app.runs, request.plan or "")
    return app.lake(plan.document.lake), plan


def _survey(
    app: App,
    lake: Lake,
    plan: StoredPlan | None,
    engine: SweepEngine,
    session: Session,
    folder: str,
    io: Interaction,
) -> LakeSurvey:
    if plan is not None:
        return LakeSurvey(plan.dataset("listing"), plan.marks())
    surveyor = Surveyor(app.stores, engine, app.clock, io.progress, sources=app.root_sources)
    return surveyor.survey(lake, app.runs.lake(lake.name), folder, session.lease)


def _check(
    app: App, lake: Lake, survey: LakeSurvey, engine: SweepEngine, folder: str, io: Interaction
) -> CheckResult:
    with io.progress.task("checked", unit="names") as task:
        found = LakeChecker(app.stores, engine, app.root_sources).check(lake, survey, folder)
        task.advance(found.marks.content.rows)
    return found


def _result(
    app: App, lake: Lake, run: str, survey: LakeSurvey, found: CheckResult
) -> CheckLakeResult:
    incomplete = (*unlisted_roots(survey), *incomplete_roots(found.marks))
    complete = len(list(found.marks.in_state(RootState.COMPLETE)))
    return CheckLakeResult(
        lake=lake.name,
        run=run,
        missing=found.files,
        outside=found.outside,
        roots=CheckedRoots(complete, len(incomplete)),
        incomplete_roots=incomplete,
        tables=tuple(_by_table(found.gaps)),
        files=tuple(_first_files(read_dataset(app.stores, found.missing))),
        refused=found.refused,
        refusals=found.refusals,
    )


def _record(session: Session, result: CheckLakeResult, found: CheckResult) -> None:
    """Record what a check counted, and what it could not."""
    figures = CheckRunFigures(
        missing=result.missing,
        tables_broken=len(result.tables),
        outside=result.outside,
        roots=len(found.marks.roots),
        roots_incomplete=result.roots.incomplete,
        names=found.marks.content.rows,
        refused=found.refused,
    )
    session.figures = recorded_figures(figures)
    problems = [f"{format_count(result.missing, 'file')} missing"] if result.missing else []
    if result.incomplete_roots:
        problems.append(f"{format_count(result.roots.incomplete, 'root')} not readable")
    if found.refused:
        problems.append(f"{format_count(found.refused, 'file')} could not be looked up")
    if problems:
        session.status, session.message = RunStatus.INCOMPLETE, ", ".join(problems)


def _by_table(gaps: Sequence[MissingFiles]) -> Iterator[BrokenTable]:
    for table, some in groupby(gaps, key=lambda gap: gap.table):
        found = list(some)
        files, size = sum(gap.files for gap in found), sum(gap.bytes for gap in found)
        yield BrokenTable(table, files, size, {gap.kind: gap.files for gap in found})


def _first_files(batches: Iterator[pa.RecordBatch]) -> Iterator[MissingFile]:
    left = _FIRST_FILES
    for batch in batches:
        yield from (MissingFile(**row) for row in batch.slice(0, left).to_pylist())
        left -= min(left, batch.num_rows)
        if not left:
            return
