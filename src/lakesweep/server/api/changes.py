"""Every commit of a realm, as pages and as server-sent events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec

from lakesweep.decoding import convert
from lakesweep.errors import UsageError
from lakesweep.operations.store.changes import ChangePage, ReadChangesRequest, read_changes
from lakesweep.server.api.call import Call, StreamReply
from lakesweep.server.api.jobs import EVENTS, QUIET_LOOKS

_MOMENT = re.compile(r"\d{4}-.*")


class ChangesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which commits of a realm: after a cursor, or since a time."""

    since: Annotated[str, msgspec.Meta(min_length=1, max_length=24_000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100


def list_changes(call: Call[ChangesQuery]) -> ChangePage:
    """Every commit of every reference of a realm, oldest first."""
    return read_changes(call.app, _changes_request(call))


def follow_changes(call: Call[ChangesQuery]) -> StreamReply:
    """The same as server-sent events, present and future. The id of the last one is a cursor."""
    request = _changes_request(call)

    def pieces() -> Iterator[bytes]:
        since, quiet = request.since, 0
        while not call.around.is_stopping():
            page = read_changes(call.app, replace(request, since=since))
            since = page.next
            yield _events(page)
            quiet = 0 if page.changes else quiet + 1
            if quiet % QUIET_LOOKS == 1:
                yield b":\n\n"

    return StreamReply(pieces(), EVENTS)


def _events(page: ChangePage) -> bytes:
    """Only the last event has an id: a client that lost the others asks for the page again."""
    lines = [
        f"event: commit\ndata: {msgspec.json.encode(each).decode()}\n\n" for each in page.changes
    ]
    if lines:
        lines[-1] = f"id: {page.next}\n{lines[-1]}"
    return "".join(lines).encode()


def _changes_request(call: Call[ChangesQuery]) -> ReadChangesRequest:
    since = call.given.since
    begin: str | datetime | None = since
    if since is not None and _MOMENT.fullmatch(since):
        try:
            begin = convert(since, Annotated[datetime, msgspec.Meta(tz=True)])
        except msgspec.ValidationError:
            raise UsageError(f"{since[:40]!r} is no time", hint="write 2026-11-18T12:00Z") from None
    return ReadChangesRequest(begin, call.given.limit, call.names["realm"])
