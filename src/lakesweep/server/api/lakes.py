"""Lakes and their roots, repositories, and plans: what they say of every file, and decisions."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from lakesweep.json_lines import encode_lines
from lakesweep.operations.lakes import explain, lakes, plan_view
from lakesweep.operations.lakes.approval import (
    Decision,
    DecisionRequest,
    approve_plan,
    reject_plan,
)
from lakesweep.operations.lakes.explain import FileExplanation, ObjectExplanations
from lakesweep.operations.lakes.lakes import LakeLine, LakeList, RootList
from lakesweep.operations.lakes.plan_view import (
    PLAN_COLUMNS,
    PlanFilesRequest,
    PlanLine,
    PlanView,
    plan_files,
    plan_kind,
    view_plan,
)
from lakesweep.server.api.call import JSON_LINES, Call, Nothing, StreamReply
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.server.http.problems import HttpError
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.sweep.verdicts import Reason, Verdict

ARROW = "application/vnd.apache.arrow.stream"
_ROWS_IN_A_PIECE = 8_192


class LakePage(LakeList, frozen=True, kw_only=True):
    """A page of lakes."""

    next: str | None = None


class RootPage(RootList, frozen=True, kw_only=True):
    """A page of roots."""

    next: str | None = None


class RepositoryLine(msgspec.Struct, frozen=True):
    """A lakeFS repository of the configuration, by its name or its address."""

    repository: str


class RepositoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of repositories."""

    repositories: tuple[RepositoryLine, ...]
    next: str | None = None


class PlansRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which plans to list."""

    lake: str | None = None
    kind: PlanKind | None = None


class PlanPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of plans, newest first."""

    plans: tuple[PlanLine, ...]
    next: str | None = None


class PlanQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which kind of plan is meant; a plan of another kind is refused."""

    kind: PlanKind | None = None


class FilesRequest(PlanQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which files of a plan to stream; all of them by default."""

    verdict: Verdict | None = None
    reason: Reason | None = None
    table: str | None = None
    path: Annotated[str, msgspec.Meta(description="A file, or a folder and all below.")] | None = (
        None
    )
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


class FileLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the stream of files."""

    path: str
    verdict: Verdict
    reason: Reason
    size_bytes: int | None
    modified: str | None
    rule: str | None


class ExplainRequest(PlanQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file to explain, by its address or its path in the lake."""

    path: Annotated[str, msgspec.Meta(min_length=1)]


class ApproveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why a plan may be applied, and the guards that are overridden with it."""

    why: str = ""
    override: tuple[str, ...] = ()


class RejectRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why a plan must never be applied."""

    why: Annotated[str, msgspec.Meta(min_length=1)]


def list_lakes(call: Call[ListRequest]) -> LakePage:
    """All lakes, by name."""
    found = sorted(lakes.list_lakes(call.app).lakes, key=lambda each: each.lake)
    page, after = page_of(found, call.given, lambda each: (each.lake,))
    return LakePage(page, next=after)


def show_lake(call: Call[Nothing]) -> LakeLine:
    """One lake."""
    return lakes.show_lake(call.app, call.names["lake"])


def list_roots(call: Call[ListRequest]) -> RootPage:
    """What plans saw of the roots of a lake."""
    found = lakes.list_roots(call.app, call.names["lake"]).roots
    page, after = page_of(found, call.given, lambda each: (each.root,))
    return RootPage(page, next=after)


def list_repositories(call: Call[ListRequest]) -> RepositoryPage:
    """The repositories of the configuration."""
    names = sorted(call.app.repository_names)
    page, after = page_of(names, call.given, lambda each: (each,))
    return RepositoryPage(repositories=tuple(map(RepositoryLine, page)), next=after)


def list_plans(call: Call[PlansRequest]) -> PlanPage:
    """Plans of lakes and repositories."""
    given = call.given
    found = plan_view.list_plans(call.app, given.lake)
    found = [each for each in found if given.kind in (None, each.kind)]
    found.sort(key=_place, reverse=True)
    page, after = page_of(found, given, _place, descending=True)
    return PlanPage(plans=page, next=after)


def _place(line: PlanLine) -> tuple[str, str]:
    return line.created.isoformat(), line.plan


def show_plan(call: Call[PlanQuery]) -> PlanView:
    """One plan, by its name, or the newest of a lake or a repository."""
    return view_plan(call.app, call.names["plan"], _kind(call))


def _kind(call: Call[Any]) -> PlanKind:
    given: PlanQuery = call.given
    return given.kind or plan_kind(call.app, call.names["plan"])


def stream_files(call: Call[FilesRequest]) -> StreamReply:
    """The files of a plan as JSON lines or as an Arrow stream, however many there are."""
    given, plan = call.given, call.names["plan"]
    request = PlanFilesRequest(
        plan,
        _kind(call),
        given.verdict,
        given.reason,
        given.table,
        given.path,
        limit=given.limit,
    )
    some = _pieces(plan_files(call.app, request))
    if ARROW in call.accept:
        return StreamReply(_arrow(some), ARROW)
    if not _accepts(call.accept, JSON_LINES):
        raise HttpError(HTTPStatus.NOT_ACCEPTABLE, f"files come as {JSON_LINES} or as {ARROW}")
    return StreamReply((bytes(encode_lines(each)) for each in some), JSON_LINES)


def _accepts(accept: str, kind: str) -> bool:
    wanted = [each.partition(";")[0].strip() for each in accept.split(",")]
    ours = (kind, "*/*", "application/*", "application/json", "")
    return any(each in ours for each in wanted)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The public columns, in batches that are small as text: each waits whole to be sent."""
    for batch in batches:
        public = batch.select(list(PLAN_COLUMNS))
        for start in range(0, batch.num_rows, _ROWS_IN_A_PIECE):
            yield public.slice(start, _ROWS_IN_A_PIECE)


class _Pieces:
    """A file that hands out what was written to it since the last time."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


def _arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sink, writer = _Pieces(), None
    for batch in batches:
        if writer is None:
            writer = pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.take()
    if writer is None:
        schema = pa.schema([(name, pa.string()) for name in PLAN_COLUMNS])
        writer = pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema)
    writer.close()
    yield sink.take()


def stream_paths(call: Call[Nothing]) -> StreamReply:
    """What a plan of a repository deletes, with all paths that it ever had."""
    found = plan_view.expired_paths(call.app, call.names["plan"])
    return StreamReply((msgspec.json.encode(each) + b"\n" for each in found), JSON_LINES)


def explain_path(call: Call[ExplainRequest]) -> FileExplanation | ObjectExplanations:
    """Why a plan keeps or deletes a file."""
    app, plan = call.app, call.names["plan"]
    if _kind(call) is PlanKind.LIFECYCLE:
        return explain.explain_object(app, plan, call.given.path)
    return explain.explain_file(app, plan, call.given.path)


def approve(call: Call[ApproveRequest]) -> Decision:
    """Let the next unattended sweep apply a plan."""
    return approve_plan(
        call.app,
        DecisionRequest(
            call.names["plan"],
            why=call.given.why,
            by=call.caller.name,
            overridden=call.given.override,
        ),
    )


def reject(call: Call[RejectRequest]) -> Decision:
    """Never apply a plan."""
    request = DecisionRequest(call.names["plan"], why=call.given.why, by=call.caller.name)
    return reject_plan(call.app, request)
