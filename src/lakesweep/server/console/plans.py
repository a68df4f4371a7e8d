"""Plans: review the totals, the guards and the files, explain one, decide, download."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from lakesweep.json_lines import encode_lines
from lakesweep.operations.lakes.plan_changes import plan_changes
from lakesweep.operations.lakes.plan_view import (
    PLAN_COLUMNS,
    PlanFilesRequest,
    PlanView,
    plan_files,
    plan_kind,
    some_plan_files,
)
from lakesweep.operations.lakes.plan_view import (
    list_plans as every_plan,
)
from lakesweep.operations.schedules.submitted_jobs import target_jobs
from lakesweep.runs.records import ApprovalState
from lakesweep.server.api import lakes as api
from lakesweep.server.api import submissions
from lakesweep.server.api.call import Call, Reply, StreamReply
from lakesweep.server.api.lakes import ApproveRequest, ExplainRequest, PlansRequest, RejectRequest
from lakesweep.server.api.submissions import ApplyBody
from lakesweep.server.console.guard_cards import guard_cards
from lakesweep.server.console.runs import is_open as is_open_job
from lakesweep.server.console.view import PageView, command_line, encoded, go_to, link
from lakesweep.sweep.inspect.charts import Bar
from lakesweep.sweep.inspect.report import table_name
from lakesweep.sweep.judge.totals import ClassTotals, FileTotals
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.sweep.plan.stored_plan import PlanState
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.units import format_count, format_size

_FILES = 50
_TABLES = 20
_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.REJECTED})


class FileFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which files of a plan; `q` is a part of their paths."""

    q: str | None = None
    verdict: Verdict | None = None
    reason: Reason | None = None
    table: str | None = None

    def request(self, plan: str, kind: PlanKind) -> PlanFilesRequest:
        """The request for these files."""
        return PlanFilesRequest(plan, kind, self.verdict, self.reason, self.table, text=self.q)

    @property
    def fields(self) -> dict[str, str]:
        """The filter as the query of a link."""
        return {name: str(value) for name, value in _set(self).items() if name in _FILTER}


_FILTER = ("q", "verdict", "reason", "table")


def _set(given: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(given).items() if value}


class ReviewRequest(FileFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files to show: those after so many."""

    after: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 0


class DownloadFormat(StrEnum):
    """How the files of a plan are downloaded."""

    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class DownloadRequest(FileFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files to download, and how."""

    format: DownloadFormat = DownloadFormat.JSON_LINES


class ApplyForm(msgspec.Struct, frozen=True, kw_only=True):
    """How long to hold what is set aside, and the guards that are overridden."""

    hold: str = ""
    override: tuple[str, ...] = ()


def list_plans(call: Call[PlansRequest]) -> PageView:
    """Plans, newest first."""
    chosen = call.given
    return PageView(
        template="plans.html",
        title="Plans",
        values={
            "page": api.list_plans(call),
            "lakes": sorted(call.app.config.lakes),
            "chosen": chosen,
        },
        api="/api/v1/plans",
        command=command_line("runs"),
    )


def show_plan(call: Call[ReviewRequest]) -> PageView:
    """A plan to be reviewed: totals, guards, files."""
    plan = api.show_plan(Call(call.around, call.caller, call.names, api.PlanQuery()))
    given = call.given
    line = next((each for each in every_plan(call.app, plan.lake) if each.plan == plan.plan), None)
    decision = None if line is None else line.decision
    is_open = plan.state is PlanState.READY
    is_decided = decision is not None and decision.state in _DECIDED
    jobs = target_jobs(call.app, plan.plan)
    is_live = any(map(is_open_job, jobs))
    return PageView(
        template="plan.html",
        title=f"Plan {plan.plan}",
        values={
            "plan": plan,
            "decision": decision,
            "can_decide": is_open and not is_decided,
            "can_apply": is_open and not is_live,
            "jobs": jobs,
            "changes": plan_changes(call.app, plan.plan),
            "cards": guard_cards(plan),
            "reasons": list(_by_reason(plan)),
            "tables": list(_by_table(plan)),
            "guesses": list(_by_guess(plan)),
            "ages": list(_by_class(plan.ages)),
            "sizes": list(_by_class(plan.sizes)),
            "goes": plan.amount(Verdict.DELETE),
            "stays": plan.amount(Verdict.KEEP),
            "files": some_plan_files(
                call.app, given.request(plan.plan, plan.kind), given.after, _FILES
            ),
            "chosen": given,
            "verdicts": [each.value for each in Verdict],
            "all_reasons": [each.value for each in Reason],
            "formats": [each.value for each in DownloadFormat],
        },
        api=link("api", "v1", "plans", plan.plan),
        command=command_line(*plan.commands.split()[1:], "show", plan.plan),
        is_live=is_live,
    )


def _by_guess(plan: PlanView) -> Iterator[Bar]:
    for guess, amount in sorted(plan.guesses.items(), key=lambda each: -each[1].bytes):
        yield Bar(guess, amount.bytes, _amount(amount))


def _by_class(classes: Iterable[ClassTotals]) -> Iterator[Bar]:
    for each in classes:
        if each.delete.files:
            yield Bar(each.name, each.delete.bytes, _amount(each.delete))


def _by_reason(plan: PlanView) -> Iterator[Bar]:
    for reason in sorted(Reason, key=lambda each: each.verdict is Verdict.KEEP):
        verdict = reason.verdict.value
        amount = plan.totals.get(verdict, {}).get(reason.value)
        if amount is not None:
            yield Bar(f"{verdict}: {reason}", amount.bytes, _amount(amount), verdict)


def _by_table(plan: PlanView) -> Iterator[Bar]:
    found = [each for each in plan.tables if each.delete.files]
    for each in found[:_TABLES]:
        yield Bar(table_name(each), each.delete.bytes, _amount(each.delete))


def _amount(amount: FileTotals) -> str:
    return f"{format_size(amount.bytes)}, {format_count(amount.files, 'file')}"


def explain(call: Call[ExplainRequest]) -> PageView:
    """Why a plan keeps or deletes a file, with the evidence."""
    plan, path = call.names["plan"], call.given.path
    found = api.explain_path(call)
    prefix = ["lifecycle"] if plan_kind(call.app, plan) is PlanKind.LIFECYCLE else []
    return PageView(
        template="explain.html",
        title="Why",
        values={"plan": plan, "file_path": path, "found": found},
        api=f"{link('api', 'v1', 'plans', plan)}/explain?path={encoded(path)}",
        command=command_line(*prefix, "explain", plan, path),
    )


def approve(call: Call[ApproveRequest]) -> Reply:
    """Let the next sweep apply a plan."""
    api.approve(call)
    return go_to(f"/plans/{encoded(call.names['plan'])}?done=approved")


def reject(call: Call[RejectRequest]) -> Reply:
    """Never apply a plan."""
    api.reject(call)
    return go_to(f"/plans/{encoded(call.names['plan'])}?done=rejected")


def apply(call: Call[ApplyForm]) -> Reply:
    """Queue the apply of a plan, into quarantine. What an approval overrode is overridden."""
    plan, given = call.names["plan"], call.given
    decisions = {each.plan: each.decision for each in every_plan(call.app) if each.decision}
    decision = decisions.get(plan)
    is_approved = decision is not None and decision.state is ApprovalState.APPROVED
    known = decision.overridden if decision is not None and is_approved else ()
    body = ApplyBody(
        hold=given.hold.strip() or None, override=tuple(dict.fromkeys((*given.override, *known)))
    )
    submissions.apply_plan(Call(call.around, call.caller, call.names, body))
    return go_to(f"/plans/{encoded(plan)}?done=applying")


def download(call: Call[DownloadRequest]) -> StreamReply:
    """The files of a plan, however many there are."""
    plan = call.names["plan"]
    request = call.given.request(plan, plan_kind(call.app, plan))
    batches = (each.select(list(PLAN_COLUMNS)) for each in plan_files(call.app, request))
    match call.given.format:
        case DownloadFormat.JSON_LINES:
            lines = (bytes(encode_lines(each)) for each in batches)
            return StreamReply(lines, "application/x-ndjson")
        case DownloadFormat.CSV:
            cells = map(_defused, batches)
            return StreamReply(_written(cells, pyarrow.csv.CSVWriter), "text/csv")
        case DownloadFormat.PARQUET:
            return StreamReply(
                _written(batches, pq.ParquetWriter), "application/vnd.apache.parquet"
            )


def _defused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows for a spreadsheet, which would take a name that begins like a formula for one."""
    columns = [
        _defused_texts(column) if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _defused_texts(texts: pa.Array) -> pa.Array:
    is_formula = pc.match_substring_regex(texts, r"^[=+\-@\t\r]")
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


class _Sink:
    """A file that hands out what was written to it since the last time."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


def _written(batches: Iterator[pa.RecordBatch], kind: Any) -> Iterator[bytes]:
    """What a writer of some format makes of batches, piece by piece."""
    sink, writer = _Sink(), None
    for batch in batches:
        if writer is None:
            writer = kind(pa.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.take()
    if writer is not None:
        writer.close()
    yield sink.take()
