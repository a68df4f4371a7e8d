"""The upkeep rules in force for tables: show where each comes from, and carry them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from lakesweep.app import App
from lakesweep.catalog.realm_adapter import RealmCatalogAdapter
from lakesweep.clock import millis
from lakesweep.config import IcebergCatalogRoot, LakeSection, LakesweepRoot
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError
from lakesweep.iceberg.catalogs import IcebergCatalog
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, UnresolvedTable
from lakesweep.iceberg.polaris_policies import polaris_policies
from lakesweep.iceberg.policy_documents import PolicyInForce
from lakesweep.iceberg.rest_catalog import RestCatalogAdapter
from lakesweep.iceberg.table_identifier import is_address
from lakesweep.operations.interaction import SILENT_IO, Confirm, EngineName, Interaction
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest, IcebergExpiryPreview
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.operations.upkeep.iceberg_rewrites import (
    MergeManifests,
    RewriteTablesRequest,
    TableRewriteResult,
    rewrite_table,
)
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.units import format_count, format_duration
from lakesweep.upkeep.policy.effective_rules import (
    EffectiveRules,
    Floors,
    RuleValue,
    Veto,
    resolve,
)
from lakesweep.upkeep.policy.rule_sources import (
    RuleLayer,
    RuleSource,
    UpkeepKey,
    Value,
    iceberg_properties,
    matching_rules,
    own_properties,
    policy_layer,
    values_of,
)
from lakesweep.upkeep.proposal import load_history, table_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyShowRequest:
    """The rules of one table. `given` are values of the command line.

    Without a lake, the first one counts that lists the catalog of the table.
    """

    table: str
    lake: str | None = None
    given: Mapping[UpkeepKey, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRunRequest:
    """Carry out the rules of all tables of a lake.

    The engine reads large tables, others this process; None is that of the configuration.
    """

    lake: str
    given: Mapping[UpkeepKey, Value] = field(default_factory=dict)
    rate: DeleteRate = UNLIMITED
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False
    engine: EngineName | None = None


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force for a table: each value with its source, and what forbids a job.

    `jobs` says of each job whether it is done.
    """

    table: str
    lake: str | None
    jobs: dict[str, bool]
    values: tuple[RuleValue, ...]
    vetoes: tuple[Veto, ...]
    notes: tuple[str, ...]


class PolicyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules of a table led to. `why` says why nothing was done, or what failed."""

    table: str
    status: str
    why: str | None = None
    expired_snapshots: int = 0
    removed_refs: int = 0
    deleted_files: int = 0
    bytes_deleted: int = 0
    manifests_created: int = 0
    left_to_sweep: bool = False
    orphan_age_ms: int | None = None
    dry_run: bool = False
    exit_code: int = 0


def show_policy(app: App, request: PolicyShowRequest) -> PolicyView:
    """The rules in force for one table."""
    lake = request.lake or _lake_of(app, request.table)
    rules, name = _rules(app, request.table, lake, request.given)
    return PolicyView(
        table=name,
        lake=lake,
        jobs={each.value: rules.does(each) for each in _JOBS},
        values=rules.values,
        vetoes=rules.vetoes,
        notes=rules.notes,
    )


_JOBS = (UpkeepKey.EXPIRE, UpkeepKey.REWRITE_MANIFESTS, UpkeepKey.REMOVE_ORPHANS)


@dataclass(frozen=True, slots=True)
class PolicyStep:
    """What is about to be done to a table, in words."""

    table: str
    what: str


def run_policies(
    app: App,
    request: PolicyRunRequest,
    confirm: Confirm[PolicyStep],
    io: Interaction = SILENT_IO,
) -> Iterator[PolicyOutcome]:
    """Carry out the rules of each table, one after another. An error concerns one table only.

    Orphan files are left to a sweep of the lake, which `io` is told of at the end.
    """
    ages: list[int | None] = []
    for outcome in _outcomes(app, request, confirm, io):
        if outcome.left_to_sweep:
            ages.append(outcome.orphan_age_ms)
        yield outcome
    if ages:
        io.notify(_sweep_command(app, request.lake, ages))


def _sweep_command(app: App, lake: str, ages: Sequence[int | None]) -> str:
    """The sweep that removes orphan files of some tables, none younger than any of them allows."""
    longest = timedelta(milliseconds=max(age or 0 for age in ages))
    is_longer = longest > app.lake(lake).section.grace
    grace = f" --grace {format_duration(longest)}" if is_longer else ""
    return f"orphan files of {format_count(len(ages), 'table')}: lakesweep plan {lake}{grace}"


def _outcomes(
    app: App, request: PolicyRunRequest, confirm: Confirm[PolicyStep], io: Interaction
) -> Iterator[PolicyOutcome]:
    engine = EngineName(request.engine or app.config.engine or EngineName.LOCAL)
    with UpkeepSession(app, engine, io, large_only=True) as session:
        for found in _tables(app, request.lake):
            if isinstance(found, UnresolvedTable):
                yield _failed(found.full_name, found.error)
                continue
            try:
                yield _TableRun(app, found.full_name, request, confirm, io, session).carry_out()
            except LakesweepError as error:
                yield _failed(found.full_name, error)


def _failed(table: str, error: LakesweepError) -> PolicyOutcome:
    status = "refused" if isinstance(error, RefusedError) else "failed"
    return PolicyOutcome(table=table, status=status, why=error.message, exit_code=error.exit_code)


@dataclass(frozen=True)
class _TableRun:
    """The jobs of one table."""

    app: App
    table: str
    request: PolicyRunRequest
    confirm: Confirm[PolicyStep]
    io: Interaction
    session: UpkeepSession

    def carry_out(self) -> PolicyOutcome:
        rules, name = _rules(self.app, self.table, self.request.lake, self.request.given)
        for note in rules.notes:
            self.io.notify(f"{name}: {note}")
        age = rules.get(UpkeepKey.ORPHAN_AGE)
        outcome = PolicyOutcome(
            table=name,
            status="skipped",
            why=_why_not(rules),
            left_to_sweep=rules.does(UpkeepKey.REMOVE_ORPHANS),
            orphan_age_ms=None if age is None else int(age.value),
            dry_run=self.request.dry_run,
        )
        if rules.does(UpkeepKey.EXPIRE):
            outcome = self._expire(outcome, rules)
        # Afterwards: a commit of our own must not push down what an expiry looks at.
        if rules.does(UpkeepKey.REWRITE_MANIFESTS):
            outcome = self._rewrite(outcome)
        return outcome

    def _expire(self, outcome: PolicyOutcome, rules: EffectiveRules) -> PolicyOutcome:
        def confirm(preview: IcebergExpiryPreview) -> None:
            snapshots = format_count(len(preview.decision.expiring), "snapshot")
            files = format_count(preview.total_files, "file")
            if preview.changes_metadata and not self.request.dry_run:
                self.confirm(PolicyStep(outcome.table, f"expire {snapshots}, {files}"))

        request = ExpireTablesRequest(
            refs=(self.table,),
            terms=rules.expiry_terms(millis(self.app.clock.now())),
            rate=self.request.rate,
            overrides=self.request.overrides,
            dry_run=self.request.dry_run,
        )
        session = self.session
        result = expire_table(self.app, self.table, request, confirm, self.io, session=session)
        is_done = result.is_complete
        return msgspec.structs.replace(
            outcome,
            status="done" if is_done else "incomplete",
            why=None if is_done else f"{len(result.failures)} files were not deleted",
            expired_snapshots=len(result.expired_snapshots),
            removed_refs=len(result.removed_refs),
            deleted_files=sum(result.deleted.values()),
            bytes_deleted=result.bytes_deleted,
            exit_code=0 if is_done else IncompleteError.exit_code,
        )

    def _rewrite(self, outcome: PolicyOutcome) -> PolicyOutcome:
        def confirm(preview: TableRewriteResult) -> None:
            if preview.changes and not self.request.dry_run:
                self.confirm(PolicyStep(outcome.table, "rewrite its manifests"))

        request = RewriteTablesRequest(
            refs=(self.table,),
            task=MergeManifests(),
            overrides=self.request.overrides,
            dry_run=self.request.dry_run,
        )
        result = rewrite_table(self.app, self.table, request, confirm, self.io)
        is_skipped = outcome.status == "skipped"
        return msgspec.structs.replace(
            outcome,
            status="done" if is_skipped else outcome.status,
            why=None if is_skipped else outcome.why,
            manifests_created=result.figures.get("manifests_created", 0),
        )


def _why_not(rules: EffectiveRules) -> str:
    for veto in rules.vetoes:
        if veto.key is UpkeepKey.EXPIRE:
            return f"switched off by {veto.source}: {veto.origin}"
    return "no rule switches expire on"


def _rules(
    app: App, table: str, lake: str | None, given: Mapping[UpkeepKey, Value]
) -> tuple[EffectiveRules, str]:
    """The rules of a table, and its full name."""
    handle = open_table(app.iceberg, table, clock=app.clock)
    base = handle.load()
    history = load_history(base)
    target = app.iceberg.find(table)
    section = None if lake is None else app.lake(lake).section
    layers = [
        RuleLayer(RuleSource.COMMAND_LINE, "", given),
        own_properties(history.properties),
        iceberg_properties(history.properties),
        *(() if section is None else matching_rules(section.rules, target.name)),
        *_policy_layers(app, target.entry),
        *(
            ()
            if section is None
            else [RuleLayer(RuleSource.LAKE, f"lake {lake}", values_of(section.upkeep))]
        ),
    ]
    rules = resolve(
        layers,
        history,
        gc_enabled=table_metadata(base.location, base.document).gc_enabled,
        other_service=handle.expired_by(base),
        floors=_floors(section),
    )
    return rules, target.name


def _floors(section: LakeSection | None) -> Floors:
    if section is None:
        return Floors()
    age = section.upkeep.min_age or timedelta(0)
    return Floors(age // timedelta(milliseconds=1), section.upkeep.min_keep or 0)


def _policy_layers(app: App, entry: CatalogEntry | None) -> Iterator[RuleLayer]:
    if entry is None:
        return
    yield from map(policy_layer, _policies(app.iceberg.open(entry.catalog), entry))


def _policies(catalog: IcebergCatalog, entry: CatalogEntry) -> list[PolicyInForce]:
    match catalog:
        case RestCatalogAdapter():
            return polaris_policies(catalog, entry.name)
        case RealmCatalogAdapter():
            return catalog.policies(entry.name)
        case _:
            return []


def _tables(app: App, lake: str) -> Iterator[CatalogEntry | UnresolvedTable]:
    """All Iceberg tables of the catalogs of a lake. A catalog that fails stops no other."""
    for name in _catalogs(app, app.lake(lake).section):
        try:
            for found in app.iceberg.open(name).survey():
                is_view = isinstance(found, CatalogEntry) and found.is_view
                if not (is_view or isinstance(found, ForeignTable)):
                    yield found
        except LakesweepError as error:
            yield UnresolvedTable(f"catalog {name}", (), error)


def _catalogs(app: App, section: LakeSection) -> list[str]:
    found = []
    for root in section.roots:
        match root:
            case IcebergCatalogRoot():
                found.append(root.name)
            case LakesweepRoot():
                realm = app.open_realm(root)
                found += [
                    f"{realm.realm.name}:{each.name}"
                    for each in realm.every(fresh=True)
                    if each.is_active and (not root.catalogs or each.name in root.catalogs)
                ]
    return list(dict.fromkeys(found))


def _lake_of(app: App, table: str) -> str | None:
    """The first lake whose roots list the catalog of a table."""
    if is_address(table):
        return None
    entry = app.iceberg.find(table).entry
    for name, section in app.config.lakes.items():
        if entry is not None and entry.catalog in _catalogs(app, section):
            return name
    return None
