"""What all tasks share that change Iceberg tables in place: which tables, and what refuses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from lakesweep.app import App
from lakesweep.config import IcebergCatalogRoot
from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.commits.table_handle import LoadedTable, TableHandle
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, UnresolvedTable
from lakesweep.iceberg.purge import PurgePlan
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.operations.tables.iceberg import PurgeTableRequest, purge_scope, purge_target
from lakesweep.operations.tables.purge_check import PurgeScope
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.paths.folder_map import FolderMap
from lakesweep.sweep.references import PurgeTarget
from lakesweep.upkeep.proposal import load_history

Result = TypeVar("Result")


@dataclass(frozen=True)
class UnexpiredTable:
    """A table that was not expired, and why. The others are not affected."""

    table: str
    error: LakesweepError


class TableChoice(Protocol):
    """Tables by name or address, all of a catalog, or all of a lake's catalogs."""

    @property
    def refs(self) -> tuple[str, ...]: ...

    @property
    def catalog(self) -> str | None: ...

    @property
    def lake(self) -> str | None: ...


def each_table(
    app: App, request: TableChoice, work: Callable[[str], Result]
) -> Iterator[Result | UnexpiredTable]:
    """Work on the tables of a request, one after another. An error concerns one table only."""
    for ref in table_refs(app, request):
        if isinstance(ref, UnexpiredTable):
            yield ref
            continue
        try:
            yield work(ref)
        except LakesweepError as error:
            yield UnexpiredTable(ref, error)


def table_refs(app: App, request: TableChoice) -> Iterator[str | UnexpiredTable]:
    """The tables of a request; those that their catalog cannot tell, with the error."""
    yield from request.refs
    catalogs = [] if request.catalog is None else [request.catalog]
    if request.lake is not None:
        roots = app.lake(request.lake).section.roots
        catalogs += [root.name for root in roots if isinstance(root, IcebergCatalogRoot)]
    for catalog in dict.fromkeys(catalogs):
        for found in app.iceberg.open(catalog).survey():
            match found:
                case CatalogEntry():
                    if not found.is_view:
                        yield found.full_name
                case UnresolvedTable():
                    yield UnexpiredTable(found.full_name, found.error)
                case ForeignTable():
                    pass


def guard_upkeep(
    handle: TableHandle, name: str, base: LoadedTable, overrides: Collection[str]
) -> None:
    """Refuse tables that another service keeps, and those that cannot be read."""
    other = handle.expired_by(base)
    if other is not None and GuardName.FOREIGN not in overrides:
        raise RefusedError(
            GuardName.FOREIGN,
            f"{name} is expired by another service: {other}",
            hint="leave it to that service; if it is switched off, add --override foreign",
        )
    if load_history(base).is_encrypted:
        raise RefusedError(
            "encrypted",
            f"{name} is encrypted: what its snapshots hold cannot be read",
            hint="use an engine that has the keys",
        )


def found_alone(target: TargetTable) -> PurgeTarget:
    """The table as roots know it. No commit without a catalog moves the entry of a catalog."""
    return replace(purge_target(target), file_alone=True)


def final_scope(
    app: App, target: TargetTable, plan: PurgePlan, request: PurgeTableRequest
) -> PurgeScope:
    """All roots, the table itself among them, as far as a catalog lists it."""
    scope = purge_scope(app, target, found_alone(target), plan, request)
    if target.entry is None:
        return scope
    rules = partial(_without_own_claims, target.name, scope.rules)
    return replace(scope, target=None, rules=rules)


def _without_own_claims(
    name: str, rules: Callable[[JudgeRules], JudgeRules], judge: JudgeRules
) -> JudgeRules:
    """Rules by which a table does not protect its own write paths as another table's."""
    tables = judge.tables
    others = [(tables.folder(number), each) for number, each in tables.claims if each != name]
    return rules(replace(judge, tables=FolderMap(others)))
