"""List, restore and empty what applies have moved to quarantine.

The roots of a lake or repository are asked before its quarantine is emptied. If what is referenced
cannot be known, because the lake, the repository or the plan is gone, a guard refuses to empty the
quarantine unless it is overridden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.errors import ConfigError, DamagedError, NotFoundError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.lifecycle.plan.recheck import NeighbourSources, RecheckSources, head_metaranges
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.operations.interaction import (
    SILENT_IO,
    Confirm,
    EngineName,
    Interaction,
    choose_engine,
)
from lakesweep.operations.lakes.engines import open_engine
from lakesweep.operations.lakes.lake_paths import lake_path
from lakesweep.operations.lakes.repositories import opener_of, recheck_sources
from lakesweep.operations.tables.purge_check import sources_of_others
from lakesweep.runs.records import RunKind, RunStatus, command_prefix, is_repository, is_table
from lakesweep.runs.run_figures import recorded_figures
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.address import folder_identity, identities
from lakesweep.storage.deleting.outcome_totals import OutcomeReport, OutcomeTotals
from lakesweep.sweep.columns import hashes_of
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.guards import Guard, check_policy, refuse
from lakesweep.sweep.holdings import Holding, find_holding, holdings
from lakesweep.sweep.plan.document import load_plan
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.quarantine.emptying import EmptyingResult, QuarantineEmptier
from lakesweep.sweep.quarantine.restore import QuarantineRestorer, Select, count_held
from lakesweep.sweep.roots.root_kinds import RootSourceFactory
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_moment


class QuarantineView(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan has in quarantine. `since` and `hold_until` are RFC 3339 times."""

    plan: str
    lake: str
    since: str
    files: int
    size_bytes: int
    restored: int
    runs: tuple[str, ...]
    emptied_by: str | None
    hold_until: str | None = None


class QuarantineList(msgspec.Struct, frozen=True):
    """Everything that was ever quarantined, newest first."""

    held: tuple[QuarantineView, ...]


class RestoreResult(OutcomeReport, frozen=True, kw_only=True):
    """What became of the files to restore."""

    plan: str
    lake: str

    @property
    def is_complete(self) -> bool:
        return not self.failed and (self.restored or 0) >= self.found


class EmptyResult(OutcomeReport, frozen=True, kw_only=True):
    """What became of a quarantine. `referenced_files` are some of the files that were kept."""

    plan: str
    lake: str
    referenced_files: tuple[str, ...] | UnsetType = UNSET

    @property
    def is_complete(self) -> bool:
        return not self.failed and not self.referenced_files


class EmptyDryRun(QuarantineView, frozen=True, kw_only=True):
    """What would be deleted, unless something references it."""

    dry_run: bool = True


@dataclass(frozen=True, slots=True)
class EmptyQuarantineRequest:
    """Empty the quarantine of a plan, by the name of the plan or of a run that applied it."""

    plan: str
    engine: EngineName | None = None
    overridden: tuple[str, ...] = ()
    dry_run: bool = False


def list_quarantines(app: App) -> QuarantineList:
    """Everything that was ever quarantined."""
    found = (count_held(app.stores, holding) for holding in holdings(app.known_runs))
    return QuarantineList(tuple(QuarantineView(**_fields(holding)) for holding in found))


def show_quarantine(app: App, plan: str) -> QuarantineView:
    """What one plan set aside, by the name of the plan or of a run that applied it."""
    return QuarantineView(**_fields(count_held(app.stores, find_holding(app.known_runs, plan))))


def restore_quarantine(
    app: App,
    plan: str,
    paths: tuple[str, ...] = (),
    *,
    prefix: str | None = None,
    table: str | None = None,
) -> RestoreResult:
    """Restore all files that a plan quarantined, or some by address or by path in the lake.

    `prefix` is a folder, and `table` a table of the plan: all files in them are restored.
    """
    if sum((bool(paths), prefix is not None, table is not None)) > 1:
        raise UsageError(
            "files are restored by path, by folder or by table",
            hint="use only one of --path, --prefix and --table",
        )
    holding = _find(app, plan)
    lake = app.lakes.of_holding(holding, app.runs.plan(holding.plan))
    restorer = QuarantineRestorer(app.stores, app.runs, lake)

    def is_held(address: str) -> bool:
        return any(batch.num_rows for batch in restorer.files(holding, [address]))

    paths = tuple(lake_path(lake.locations, path, is_held) for path in paths)
    select = None
    if prefix is not None:
        select = _in_folder(lake_path(lake.locations, prefix.rstrip("/"), lambda _: True))
    elif table is not None:
        select = _of_table(open_plan(app.stores, app.known_runs, holding.plan), table)
    with _session(app, holding, RunKind.RESTORE, {}) as session:
        totals = restorer.restore(holding, session, paths, select)
        _record(session, totals)
        if select is not None and not totals.found:
            raise NotFoundError(
                f"{holding.plan} set aside no file of {prefix or table}; nothing was restored",
                hint=f"lakesweep show {holding.plan} --verdict delete --files lists what it did",
            )
    return RestoreResult(
        **msgspec.structs.asdict(totals.report()), plan=holding.plan, lake=holding.lake
    )


def _in_folder(folder: str) -> Select:
    """Selects the files below a folder; the folder itself ends at a slash, never in a name."""
    address = folder_identity(folder)

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.starts_with(identities(batch["path"]), address))

    return select


def _of_table(plan: StoredPlan, table: str) -> Select:
    """Selects the files that a plan counts to a table."""
    wanted = HashSet()
    for batch in plan.rows(Verdict.DELETE, table=table):
        wanted.add(hashes_of(batch))
    return lambda batch: batch.filter(pa.array(wanted.contains(hashes_of(batch))))


def empty_quarantine(
    app: App,
    request: EmptyQuarantineRequest,
    confirm: Confirm[QuarantineView],
    io: Interaction = SILENT_IO,
) -> EmptyResult | EmptyDryRun:
    """Delete permanently what a plan quarantined, except files that something references now."""
    holding = _find(app, request.plan)
    confirm(QuarantineView(**_fields(holding)))
    if request.dry_run:
        return EmptyDryRun(**_fields(holding))
    spec = {
        "engine": choose_engine(app, request.engine).value,
        "overridden": list(request.overridden),
    }
    with (
        open_engine(app, request.engine, io) as engine,
        _session(app, holding, RunKind.EMPTY, spec) as session,
    ):
        emptied = _empty(app, request, holding, engine, session, io)
        _record(session, emptied.tally)
        if emptied.kept:
            session.status = RunStatus.INCOMPLETE
    return EmptyResult(
        **msgspec.structs.asdict(emptied.tally.report()),
        plan=holding.plan,
        lake=holding.lake,
        referenced_files=tuple(emptied.referenced) or UNSET,
    )


def ended_holds(app: App) -> tuple[str, ...]:
    """The plans whose files have been in quarantine for as long as they had to, oldest first."""
    now = micros(app.clock.now())
    ended = [
        each.plan
        for each in holdings(app.known_runs)
        if each.ended is None and each.hold_until is not None and each.hold_until <= now
    ]
    return tuple(reversed(ended))


def _empty(
    app: App,
    request: EmptyQuarantineRequest,
    holding: Holding,
    engine: SweepEngine,
    session: Session,
    io: Interaction,
) -> EmptyingResult:
    emptier = QuarantineEmptier(
        app.stores,
        engine,
        app.runs,
        app.clock,
        io.progress,
        quarantine_roots(app, holding, request.overridden),
    )
    lake = app.lakes.of_holding(holding, app.runs.plan(holding.plan))
    return emptier.release(lake, holding, session, request.overridden)


def _find(app: App, name: str) -> Holding:
    return count_held(app.stores, find_holding(app.runs, name))


def _session(
    app: App, holding: Holding, kind: RunKind, spec: Mapping[str, Any]
) -> AbstractContextManager[Session]:
    plans = app.runs.plan(holding.plan).address.rstrip("/").rpartition("/")[0]
    return run_session(app.runs, holding.lake, kind, plan=holding.plan, spec=spec, plans=plans)


def _record(session: Session, totals: OutcomeTotals) -> None:
    session.figures = recorded_figures(totals.report())
    if totals.failed:
        session.status = RunStatus.INCOMPLETE


def _fields(holding: Holding) -> dict[str, Any]:
    """The fields of a QuarantineView."""
    return {
        "plan": holding.plan,
        "lake": holding.lake,
        "since": _second(holding.since),
        "files": holding.files,
        "size_bytes": holding.size_bytes,
        "restored": holding.restored,
        "runs": tuple(run.run for run in holding.runs),
        "emptied_by": holding.ended,
        "hold_until": None if holding.hold_until is None else _second(holding.hold_until),
    }


def _second(at: int) -> str:
    return format_moment(moment(at).replace(microsecond=0))


def quarantine_roots(app: App, holding: Holding, overridden: Collection[str]) -> RootSourceFactory:
    """The sources of everything that may reference what a plan quarantined."""
    if is_repository(holding.lake):
        return _repository_roots(app, holding, overridden)
    if is_table(app.runs.plan(holding.plan).lake):
        return sources_of_others(app)
    if holding.lake not in app.config.lakes:
        why = (
            f"lake {holding.lake} is no longer configured, so its roots are unknown; configure it"
            " again, unless nothing reads its files any more"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
    return app.root_sources


def _repository_roots(app: App, holding: Holding, overridden: Collection[str]) -> RootSourceFactory:
    """The repository, as far as it changed since the plan, and others that may need its objects."""
    plan = app.runs.plan(holding.plan)
    try:
        document = load_plan(app.stores, plan)
        found = recheck_sources(app, plan, document)
    except (NotFoundError, DamagedError) as error:
        why = (
            f"the plan says what was referenced, and it cannot be read: {error.message}; restore"
            " its folder, or only what branches and tags show, and what is staged, is kept"
        )
        _refuse(GuardName.PLAN_GONE, why, holding, overridden)
        return _roots_without_plan(app, holding, overridden)
    # A policy that was applied since may keep for longer what this plan expired.
    applied = app.runs.lake(holding.lake).policy
    for guard in check_policy(document.policy, applied):
        _refuse(guard.name, guard.message, holding, overridden)
    try:
        found.opener()
    except (ConfigError, NotFoundError) as error:
        why = (
            f"repository {found.repository} cannot be read, so what it references is unknown:"
            f" {error.message}; configure it again, unless it was deleted"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
        return found.others
    return found


def _roots_without_plan(
    app: App, holding: Holding, overridden: Collection[str]
) -> RootSourceFactory:
    openers = {name: opener_of(app, name) for name in app.repository_names}
    own = [name for name, each in openers.items() if lake_name(each().namespace) == holding.lake]
    neighbours = {name: opener for name, opener in openers.items() if name not in own}
    without_staging = GuardName.STAGED in overridden
    others = NeighbourSources(neighbours, without_staging, of_lakes=app.root_sources)
    if not own:
        return others
    return RecheckSources(own[0], openers[own[0]], head_metaranges, others)


def _refuse(name: str, why: str, holding: Holding, overridden: Collection[str]) -> None:
    """RefusedError unless the guard is overridden."""
    again = f"lakesweep quarantine empty {holding.plan}"
    refuse([Guard(name, why)], overridden, holding.plan, command_prefix(holding.lake), again)
