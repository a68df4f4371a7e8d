"""The store with its realms and commits, and tokens."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import msgspec

from lakesweep.catalog.service_tokens import ServiceRole
from lakesweep.operations.catalogs.tokens import NewToken
from lakesweep.operations.store.log import ReadLogRequest, list_references, read_log
from lakesweep.server.api import store as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.api.store import NewTokenBody
from lakesweep.server.console.view import PageView, command_line, go_to

_REFERENCES = 200
_COMMITS = 100
_CHANGES = 20


class StoreRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The realm whose references to show; the configured one by default."""

    realm: str | None = None


class LogRequest(StoreRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reference whose commits to show."""

    reference: Annotated[str, msgspec.Meta(min_length=1)]


def show_store(call: Call[StoreRequest]) -> PageView:
    """The database, its realms, and the references of one of them."""
    realm = call.given.realm or call.app.config.store.realm
    nothing: Call[Nothing] = Call(call.around, call.caller, call.names, Nothing())
    return PageView(
        template="store.html",
        title="Store",
        values={
            "store": api.show_store(nothing),
            "realm": realm,
            "references": list(list_references(call.app, realm, limit=_REFERENCES)),
            "most": _REFERENCES,
        },
        api="/api/v1/store",
        command="lakesweep store info",
    )


def show_log(call: Call[LogRequest]) -> PageView:
    """The newest commits of a reference."""
    given = call.given
    request = ReadLogRequest(given.reference, given.realm, limit=_COMMITS)
    realm = ["--realm", given.realm] if given.realm else []
    return PageView(
        template="log.html",
        title=f"Commits of {given.reference}",
        values={
            "commits": list(islice(read_log(call.app, request), _COMMITS)),
            "most_changes": _CHANGES,
        },
        command=command_line("store", "log", given.reference, *realm),
    )


def list_tokens(call: Call[ListRequest]) -> PageView:
    """All tokens, without their secrets."""
    return _tokens(call, None)


def _tokens(call: Call[ListRequest], made: NewToken | None) -> PageView:
    return PageView(
        template="access.html",
        title="Access",
        values={
            "page": api.list_tokens(call),
            "made": made,
            "roles": [each.value for each in ServiceRole],
        },
        api="/api/v1/tokens",
        command="lakesweep token list",
    )


def create_token(call: Call[NewTokenBody]) -> PageView:
    """A new token; its text is on this page and nowhere else."""
    made = api.create_token(call)
    return _tokens(Call(call.around, call.caller, call.names, ListRequest()), made)


def revoke_token(call: Call[Nothing]) -> Reply:
    """End a token and its sessions."""
    api.revoke_token(call)
    return go_to("/access?done=revoked")
