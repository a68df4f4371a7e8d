"""A session: Lakesweep opened with a configuration, ready to list, plan and delete."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakesweep.app import App
from lakesweep.catalog import Catalogs
from lakesweep.clock import Clock, SystemClock
from lakesweep.config.file import config_from_values, load_config
from lakesweep.config.search import find_config
from lakesweep.operations.interaction import EngineName, Interaction, choose_engine
from lakesweep.operations.lakes.approval import (
    Decision,
    DecisionRequest,
    approve_plan,
    reject_plan,
)
from lakesweep.operations.lakes.check import CheckLakeRequest, CheckLakeResult, check_lake
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.lakes.plan_view import find_plan
from lakesweep.operations.lakes.quarantine import (
    EmptyDryRun,
    EmptyQuarantineRequest,
    EmptyResult,
    QuarantineView,
    empty_quarantine,
    list_quarantines,
)
from lakesweep.operations.lakes.repository_plan import (
    BRANCH_GRACE,
    FLOOR_DAYS,
    PlanRepositoryRequest,
    plan_repository,
)
from lakesweep.operations.lakes.runs import RunFilter, RunView, list_runs
from lakesweep.operations.lakes.sweep import SweepRequest, SweepResult, sweep_lake
from lakesweep.operations.store.store import (
    MaintainStoreRequest,
    MaintenancePreview,
    MaintenanceView,
    maintain_store,
)
from lakesweep.operations.tables.files import (
    FileFilters,
    ListFilesRequest,
    PurgeFilesPreview,
    PurgeFilesRequest,
    PurgeResult,
    list_files,
    purge_files,
)
from lakesweep.progress import SILENT, Progress
from lakesweep.python_api.plan import Plan
from lakesweep.python_api.tables import IcebergApi, PaimonApi
from lakesweep.python_api.values import (
    DurationLike,
    MomentLike,
    RowStream,
    consent,
    to_duration,
    to_moment,
)
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.store import Store
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.units import absolute_address, absolute_override


def open(  # noqa: A001
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    progress: Progress = SILENT,
    clock: Clock | None = None,
) -> Lakesweep:
    """Open Lakesweep with a configuration file, with its values, or with the nearest file.

    Values are the tables of `lakesweep.toml` as nested mappings. Relative paths are relative to
    the folder of the file, or to the current folder.
    """
    clock = clock or SystemClock()
    if isinstance(config, Mapping):
        checked = config_from_values(config)
        return Lakesweep(App(checked, clock=clock, progress=progress, notify=warnings.warn))
    search = find_config(None if config is None else Path(config), os.environ, Path.cwd())
    for each in search.passed_over:
        warnings.warn(str(each), stacklevel=2)
    folder = search.path.parent if search.path else None
    values = load_config(search.path, os.environ)
    return Lakesweep(
        App(
            values,
            folder=folder,
            config_file=search.path,
            clock=clock,
            progress=progress,
            notify=warnings.warn,
            searched=None if search.path else search.places,
        )
    )


class Lakesweep:
    """Everything that the command line can do, from Python. Use it as a context manager.

    Methods that delete need `yes=True`, or `confirm`, a function that is called with a preview and
    raises to refuse. Guards are the same as on the command line; `override` names those to pass.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self._io = Interaction(app.progress)
        self.iceberg = IcebergApi(app, self._io)
        self.paimon = PaimonApi(app, self._io)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to databases."""
        self.app.close()

    def files(self, *locations: str, **filters: Any) -> RowStream:
        """The files stored at and below some addresses; `filters` as in `file_filters`."""
        request = ListFilesRequest(
            tuple(map(absolute_address, locations)), self.file_filters(**filters)
        )
        return RowStream(lambda: list_files(self.app, request), FILE_SCHEMA)

    def purge_files(
        self,
        *locations: str,
        rate: DeleteRate = UNLIMITED,
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[PurgeFilesPreview], None] | None = None,
        **filters: Any,
    ) -> PurgeResult:
        """Delete the files that `filters` select."""
        request = PurgeFilesRequest(
            tuple(map(absolute_address, locations)), self.file_filters(**filters), rate, dry_run
        )
        agreed = consent(confirm, yes=yes or dry_run)
        return purge_files(self.app, request, agreed, self._io)

    def file_filters(
        self,
        *,
        older_than: MomentLike | None = None,
        newer_than: MomentLike | None = None,
        glob: Iterable[str] = (),
        exclude: Iterable[str] = (),
        regex: str | None = None,
        min_size_bytes: int | None = None,
        max_size_bytes: int | None = None,
        kinds: Iterable[str] = (),
    ) -> FileFilters:
        """Which files are selected: those that meet all conditions."""
        return FileFilters(
            to_moment(older_than, self.app.clock),
            to_moment(newer_than, self.app.clock),
            tuple(glob),
            tuple(exclude),
            regex,
            min_size_bytes,
            max_size_bytes,
            tuple(kinds),
        )

    def plan(
        self,
        lake: str,
        *,
        engine: EngineName | str | None = None,
        mode: MatchMode | str = MatchMode.AUTO,
        grace: DurationLike | None = None,
        inventory: str | None = None,
        inventory_time: MomentLike | None = None,
        override: Iterable[str] = (),
    ) -> Plan:
        """Judge every file of a lake, and store the verdicts. Deletes nothing."""
        request = PlanLakeRequest(
            lake,
            choose_engine(self.app, engine),
            MatchMode(mode),
            to_duration(grace),
            inventory,
            to_moment(inventory_time, self.app.clock),
            tuple(map(absolute_override, override)),
        )
        made = plan_lake(self.app, request, self._io)
        return Plan(self.app, self._io, made.plan, PlanKind.SWEEP)

    @property
    def lakes(self) -> tuple[str, ...]:
        """The names of the lakes in the configuration."""
        return tuple(sorted(self.app.config.lakes))

    def sweep(
        self, lake: str, *, engine: EngineName | str | None = None, dry_run: bool = False
    ) -> SweepResult:
        """Plan a lake, and apply what its limits allow; the rest waits for approval.

        The limits in the configuration are the consent, so nobody is asked.
        """
        request = SweepRequest(lake, choose_engine(self.app, engine), dry_run=dry_run)
        return sweep_lake(self.app, request, self._io)

    def approve(self, plan: str, why: str = "") -> Decision:
        """Let the next sweep of the lake apply a plan that waits."""
        return approve_plan(self.app, DecisionRequest(plan, why))

    def reject(self, plan: str, why: str) -> Decision:
        """End a plan for good: nothing applies it any more."""
        return reject_plan(self.app, DecisionRequest(plan, why))

    def plan_repository(
        self,
        repository: str,
        policy: str | Path,
        *,
        engine: EngineName | str | None = None,
        floor_days: int = FLOOR_DAYS,
        branch_grace: DurationLike = BRANCH_GRACE,
        override: Iterable[str] = (),
    ) -> Plan:
        """Judge every object of a lakeFS repository by a policy file. Deletes nothing."""
        file = Path(policy)
        request = PlanRepositoryRequest(
            repository,
            file.read_bytes(),
            str(file),
            floor_days=floor_days,
            branch_grace=to_duration(branch_grace) or BRANCH_GRACE,
            engine=choose_engine(self.app, engine),
            overridden=tuple(override),
        )
        made = plan_repository(self.app, request, self._io)
        return Plan(self.app, self._io, made.plan, PlanKind.LIFECYCLE)

    def open_plan(self, name: str, kind: PlanKind = PlanKind.SWEEP) -> Plan:
        """A plan by its name, or the newest one of a lake or repository."""
        found = find_plan(self.app, name, kind)
        return Plan(self.app, self._io, found.document.plan, kind)

    def check(
        self,
        lake: str | None = None,
        *,
        plan: str | None = None,
        engine: EngineName | str | None = None,
    ) -> CheckLakeResult:
        """Find files that are referenced but not stored; the result names the first of them."""
        request = CheckLakeRequest(lake, plan, choose_engine(self.app, engine))
        with check_lake(self.app, request, self._io) as checked:
            return checked.result

    def quarantines(self) -> tuple[QuarantineView, ...]:
        """What is held in quarantine, by plan."""
        return list_quarantines(self.app).held

    def empty_quarantine(
        self,
        plan: str,
        *,
        engine: EngineName | str | None = None,
        override: Iterable[str] = (),
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[QuarantineView], None] | None = None,
    ) -> EmptyResult | EmptyDryRun:
        """Delete quarantined files for good, unless something references them now."""
        request = EmptyQuarantineRequest(
            plan, choose_engine(self.app, engine), tuple(override), dry_run
        )
        agreed = consent(confirm, yes=yes or dry_run)
        return empty_quarantine(self.app, request, agreed, self._io)

    def runs(self, lake: str | None = None, limit: int = 20) -> list[RunView]:
        """What was done, by whichever way, the newest first."""
        return list_runs(self.app, RunFilter(lake), limit)

    def maintain(
        self,
        *,
        dry_run: bool = False,
        yes: bool = False,
        confirm: Callable[[MaintenancePreview], None] | None = None,
    ) -> MaintenanceView:
        """Delete what nothing references in the store's own database."""
        request = MaintainStoreRequest(dry_run=dry_run)
        agreed = consent(confirm, yes=yes or dry_run)
        return maintain_store(self.app, request, agreed, self._io)

    @property
    def store(self) -> Store:
        """The store: realms, references, commits and objects."""
        return self.app.store

    def catalogs(self, realm: str | None = None) -> Catalogs:
        """The catalogs of a realm, the configured one by default."""
        return Catalogs(self.app.store.realm(realm or self.app.config.store.realm))
