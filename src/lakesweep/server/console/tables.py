"""Tables and repositories: what their history holds, and what retention would let go."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lakesweep.errors import NotFoundError
from lakesweep.lifecycle.plan.document import lifecycle_details
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.operations.lakes.lakes import KnownRoot, list_roots
from lakesweep.operations.lakes.plan_view import view_plan
from lakesweep.operations.upkeep.table_history import (
    TableFormat,
    TableHistoryRequest,
    table_history,
)
from lakesweep.server.api.call import Call, Nothing
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.server.console.view import PageView, command_line, link
from lakesweep.sweep.inspect.charts import Bar
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.units import format_count, format_size

_METADATA = ".metadata.json"


class TablesRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which tables: of one lake, and those with a text in their names."""

    lake: str | None = None
    q: str | None = None


class HistoryPageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether to read all manifests, and say what each snapshot alone holds."""

    measure: bool = False


class TableLine(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a plan of a lake saw; `format` is None if it has no history to show."""

    lake: str
    table: str
    root: KnownRoot
    format: TableFormat | None


def list_tables(call: Call[TablesRequest]) -> PageView:
    """The tables of all lakes that plans saw, and the repositories."""
    given = call.given
    found = (each for each in _tables(call, given.lake) if _matches(each, given.q))
    page, after = page_of(found, given, lambda each: (each.lake, each.table))
    return PageView(
        template="tables.html",
        title="Tables",
        values={
            "tables": page,
            "next": after,
            "chosen": given,
            "lakes": sorted(call.app.config.lakes),
            "repositories": sorted(call.app.repository_names),
        },
        api=f"{link('api', 'v1', 'lakes', given.lake)}/roots" if given.lake else "/api/v1/lakes",
        command="lakesweep lakes",
    )


def _tables(call: Call[TablesRequest], lake: str | None) -> Iterator[TableLine]:
    for name in sorted(call.app.config.lakes):
        if lake in (None, name):
            yield from (_line(name, each) for each in list_roots(call.app, name).roots)


def _matches(line: TableLine, text: str | None) -> bool:
    return not text or text.lower() in line.table.lower()


def _line(lake: str, root: KnownRoot) -> TableLine:
    if root.dropped:
        kind = None
    elif root.pointer.endswith(_METADATA):
        kind = TableFormat.ICEBERG
    elif "paimon" in root.origin.lower() or root.root.rstrip("/") in _trimmed(root.folders):
        kind = TableFormat.PAIMON
    else:
        kind = None
    return TableLine(lake=lake, table=root.root, root=root, format=kind)


def _trimmed(folders: tuple[str, ...]) -> set[str]:
    return {each.rstrip("/") for each in folders}


def show_table(call: Call[HistoryPageRequest]) -> PageView:
    """One table: its snapshots on a line of time, and why each stays."""
    lake, name = call.names["lake"], call.names["table"]
    roots = {each.root: each for each in list_roots(call.app, lake).roots}
    if name not in roots:
        raise NotFoundError(f"no plan of lake {lake} saw a table {name}", hint="list the tables")
    line = _line(lake, roots[name])
    history = None
    if line.format is not None:
        is_iceberg = line.format is TableFormat.ICEBERG
        address = name if is_iceberg else line.root.folders[0]
        request = TableHistoryRequest(address, line.format, call.given.measure)
        history = table_history(call.app, request)
    command = "iceberg" if line.format is TableFormat.ICEBERG else "paimon"
    return PageView(
        template="table.html",
        title=name,
        values={"line": line, "history": history},
        api=f"{link('api', 'v1', 'lakes', lake)}/roots",
        command=command_line(command, "expire-snapshots", name, "--dry-run"),
    )


def show_repository(call: Call[Nothing]) -> PageView:
    """One lakeFS repository: its refs, the rules of its newest plan, and what they save."""
    name = call.names["repository"]
    if name not in call.app.repository_names:
        raise NotFoundError(f"there is no repository {name}", hint="list the tables")
    plan, details = None, None
    lake = lake_name(call.app.repository(name).namespace)
    plans = call.app.known_runs.plans(lake)
    if plans:
        plan = view_plan(call.app, plans[0].plan, PlanKind.LIFECYCLE)
        details = lifecycle_details(plan)
    bars = [] if details is None else details.saved.rule
    return PageView(
        template="repository.html",
        title=f"Repository {name}",
        values={
            "plan": plan,
            "details": details,
            "rules": [
                Bar(
                    str(each.rule),
                    each.delete.bytes,
                    f"{format_size(each.delete.bytes)}, {format_count(each.delete.files, 'file')}",
                )
                for each in bars
            ],
        },
        api="/api/v1/repositories",
        command=command_line("lifecycle", "show", name),
    )
