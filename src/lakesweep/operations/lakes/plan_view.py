"""Look at a stored plan: its document and state, its files, and its report page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.decoding import convert
from lakesweep.errors import NotFoundError
from lakesweep.operations.lakes.approval import Decision
from lakesweep.operations.lakes.repositories import plan_or_lake
from lakesweep.runs.records import PlanRecord, PlanStatus
from lakesweep.storage.datasets.reader import read_dataset, scan_groups
from lakesweep.sweep.inspect.report import render_report
from lakesweep.sweep.plan import stored_plan
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, check_kind
from lakesweep.sweep.plan.stored_plan import PlanState, StoredPlan, open_plan
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: What programs get of each file of a plan.
PLAN_COLUMNS = ("path", "verdict", "reason", "size_bytes", "modified", "rule")
#: How many rows a page of files may read, so that a search of millions takes several pages.
_MOST_ROWS = 200_000
#: Up to this many files are only shown: the hash of the whole part is not verified for them.
_SHORT_LIST = 1_000
#: The dataset of a lifecycle plan with the paths of what it deletes.
_ADDRESSES = "addresses"


class PlanView(PlanDocument, frozen=True, kw_only=True):
    """A plan and its state now; `run` is the last run that applied it."""

    state: PlanState
    run: str | None


class PlanLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a plan. `decision` is set if it waits, or a person decided."""

    plan: str
    lake: str
    kind: PlanKind
    state: PlanState
    created: datetime
    expires: datetime
    run: str | None
    decision: Decision | None

    @classmethod
    def of(cls, record: PlanRecord, now: datetime) -> PlanLine:
        """The line of a stored plan."""
        is_over = record.status is PlanStatus.READY and micros(now) >= record.expires_at
        return cls(
            plan=record.plan,
            lake=record.lake,
            kind=PlanKind.of(record.lake),
            state=PlanState.EXPIRED if is_over else PlanState(record.status.value),
            created=moment(record.created_at),
            expires=moment(record.expires_at),
            run=record.run,
            decision=None if record.approval is None else Decision.of(record, record.approval),
        )


@dataclass(frozen=True, slots=True)
class PlanFilesRequest:
    """Files of a plan, by verdict, reason and the table whose folder they are in.

    `path` is the address of one file, or of a folder with all below it; `text` is a part of the
    path; `limit` is how many files are wanted at most.
    """

    plan: str
    kind: PlanKind = PlanKind.SWEEP
    verdict: Verdict | None = None
    reason: Reason | None = None
    table: str | None = None
    path: str | None = None
    text: str | None = None
    limit: int | None = None


class PlannedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan says of one file."""

    path: str
    verdict: Verdict
    reason: Reason
    size_bytes: int | None
    modified: datetime | None
    rule: str | None
    table: str | None


class PlannedFiles(msgspec.Struct, frozen=True):
    """Some files of a plan; `after` is how many come before the next page, if there is one.

    A page may have few files or none although there are more: of `total` files, `after` were looked
    at so far.
    """

    files: tuple[PlannedFile, ...]
    after: int | None
    total: int = 0


def find_plan(app: App, name: str, kind: PlanKind = PlanKind.SWEEP) -> StoredPlan:
    """A plan by its name, or the newest of a lake or repository; UsageError for another kind."""
    name = plan_or_lake(app, name) if kind is PlanKind.LIFECYCLE else name
    found = open_plan(app.stores, app.known_runs, name)
    check_kind(found.document, kind)
    return found


def list_plans(app: App, lake: str | None = None) -> list[PlanLine]:
    """All plans, or those of a lake or repository, newest first."""
    now = app.clock.now()
    return [PlanLine.of(each, now) for each in app.known_runs.plans(lake)]


def view_plan(app: App, name: str, kind: PlanKind = PlanKind.SWEEP) -> PlanView:
    """The document of a plan with its state."""
    plan = find_plan(app, name, kind)
    fields = msgspec.structs.asdict(plan.document)
    return PlanView(**fields, state=plan.state(app.clock.now()), run=plan.record.run)


def plan_files(app: App, request: PlanFilesRequest) -> Iterator[pa.RecordBatch]:
    """Stream the verdicts of a plan, those to delete first."""
    plan = find_plan(app, request.plan, request.kind)
    if request.table is not None:
        _check_table(plan, request.table)
    is_short = request.limit is not None and request.limit <= _SHORT_LIST
    read = plan.first_rows if is_short else plan.rows
    rows = read(request.verdict, reason=request.reason, table=request.table)
    if request.text:
        rows = _containing(rows, request.text)
    if request.path is not None:
        rows = _at(rows, request.path)
    return rows if request.limit is None else _first(rows, request.limit)


def _first(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


def some_plan_files(app: App, request: PlanFilesRequest, after: int, limit: int) -> PlannedFiles:
    """A page of the files of a plan that come after so many others, wanted or not.

    No more is read than is needed to fill the page, and no more rows than a page may take.
    """
    plan = find_plan(app, request.plan, request.kind)
    if request.table is not None:
        _check_table(plan, request.table)
    search = _FileSearch(request, limit)
    verdicts = list(Verdict) if request.verdict is None else [request.verdict]
    verdicts.sort(key=lambda each: each is Verdict.KEEP)
    datasets = [plan.dataset(each.value) for each in verdicts]
    before, total = 0, sum(each.rows for each in datasets)
    for dataset in datasets:
        if before + dataset.rows > after:
            for first, group in scan_groups(app.stores, dataset, after - before):
                search.look(group, before + first, after)
                if search.is_full and search.next < total:
                    return PlannedFiles(tuple(search.found), search.next, total)
        before += dataset.rows
    return PlannedFiles(tuple(search.found), None, total)


class _FileSearch:
    """Gathers the wanted files of row groups until there are enough, or enough was read."""

    def __init__(self, request: PlanFilesRequest, limit: int) -> None:
        self._request = request
        self._limit = limit
        self._read = 0
        self.next = 0
        self.found: list[PlannedFile] = []

    def look(self, group: ds.ParquetFileFragment, first: int, after: int) -> None:
        """Take the wanted files of a group, from row number `after` on; `first` is its first."""
        wanted = self._wanted(group)
        numbers = wanted[wanted >= after - first][: self._limit + 1 - len(self.found)]
        if len(numbers):
            rows = group.to_table(columns=list(PlannedFile.__struct_fields__), use_threads=False)
            some = rows.take(pa.array(numbers)).to_pylist()
            self.found += (convert(row, PlannedFile) for row in some)
        if len(self.found) > self._limit:
            self.next = first + int(numbers[-1])
            del self.found[self._limit :]
        else:
            self.next = first + group.row_groups[0].num_rows
        self._read += group.row_groups[0].num_rows

    def _wanted(self, group: ds.ParquetFileFragment) -> npt.NDArray[np.int64]:
        """The numbers of the wanted rows in a group."""
        count = group.row_groups[0].num_rows
        request, conditions = self._request, []
        names = {"reason": request.reason, "table": request.table, "path": request.text}
        asked = [name for name, value in names.items() if value]
        if not asked:
            return np.arange(count)
        rows = group.to_table(columns=asked, use_threads=False)
        if request.text:
            conditions.append(_contains(rows["path"], request.text))
        conditions += (pc.equal(rows[name], names[name]) for name in asked if name != "path")
        every = reduce(pc.and_, conditions)
        return np.flatnonzero(pc.fill_null(every, False).to_numpy(zero_copy_only=False))

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read for this page."""
        return len(self.found) >= self._limit or self._read >= _MOST_ROWS


def _containing(rows: Iterator[pa.RecordBatch], text: str) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield batch.filter(_contains(batch.column("path"), text))


def _contains(paths: pa.Array | pa.ChunkedArray, text: str) -> pa.Array | pa.ChunkedArray:
    return pc.match_substring(paths, text, ignore_case=True)


def _at(rows: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    folder = f"{path.rstrip('/')}/"
    for batch in rows:
        paths = batch.column("path")
        yield batch.filter(pc.or_(pc.equal(paths, path), pc.starts_with(paths, folder)))


def plan_kind(app: App, name: str) -> PlanKind:
    """Whether a plan, by its name or its lake's, is one of a lake, a repository or a table."""
    return PlanKind.of(stored_plan.find_plan(app.known_runs, name).lake)


def _check_table(plan: StoredPlan, table: str) -> None:
    """NotFoundError if no file of a plan is in the folder of a table of this name."""
    # The document names the largest tables only; the others are found by their first file.
    named = any(each.name == table for each in plan.document.tables)
    if not named and not any(batch.num_rows for batch in plan.rows(table=table)):
        raise NotFoundError(
            f"plan {plan.record.plan} has no file of a table {table}",
            hint=f"lakesweep show {plan.record.plan} lists the tables",
        )


class ExpiredPaths(msgspec.Struct, frozen=True):
    """An object that a lifecycle plan deletes, with all paths it ever had, and rules on each."""

    address: str
    paths: tuple[str, ...]
    matched_rules: tuple[str, ...]
    size_bytes: int | None
    waits_for_heads: bool


def expired_paths(app: App, name: str) -> Iterator[ExpiredPaths]:
    """Stream the objects that a lifecycle plan deletes, by paths of the repository."""
    plan = find_plan(app, name, PlanKind.LIFECYCLE)
    if _ADDRESSES not in plan.document.datasets:
        raise NotFoundError(
            f"{plan.document.plan} was made by an earlier version, without paths",
            hint="plan again",
        )
    fields = list(ExpiredPaths.__struct_fields__)
    for batch in read_dataset(plan.stores, plan.dataset(_ADDRESSES), fields):
        yield from (convert(row, ExpiredPaths) for row in batch.to_pylist())


def plan_page(view: PlanView) -> str:
    """The plan as one HTML page with charts."""
    return render_report(view, view.state)
