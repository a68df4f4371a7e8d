"""The store with its realms and commits, and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.entities import EntityType, join, split
from lakesweep.operations.catalogs.access import list_grants, list_principals, list_roles
from lakesweep.operations.catalogs.catalogs import list_catalogs
from lakesweep.operations.catalogs.entities import list_entities
from lakesweep.operations.catalogs.tokens import NewToken
from lakesweep.operations.catalogs.views import EntityLine
from lakesweep.operations.lakes.activity import recent_activity
from lakesweep.operations.store.log import ReadLogRequest, list_references, read_log
from lakesweep.server.api import store as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.api.store import NewTokenBody
from lakesweep.server.console.view import PageView, command_line, encoded, go_to

_REFERENCES = 200
_COMMITS = 100
_CHANGES = 20
_ENTITIES = 100
#: What a catalog or a namespace holds, in the order of the page.
_CONTENT = {
    EntityType.NAMESPACE: "Namespaces",
    EntityType.TABLE: "Tables",
    EntityType.GENERIC_TABLE: "Generic tables",
    EntityType.VIEW: "Views",
    EntityType.POLICY: "Policies",
}


class StoreRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The realm whose references to show; the configured one by default."""

    realm: str | None = None


class LogRequest(StoreRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reference whose commits to show."""

    reference: Annotated[str, msgspec.Meta(min_length=1)]


class CatalogRequest(StoreRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The catalog or namespace whose content to show, by its full name."""

    within: Annotated[str, msgspec.Meta(min_length=1)]


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
            "catalogs": list_catalogs(call.app, realm).catalogs[:_ENTITIES],
            "grants": list(islice(list_grants(call.app, None, realm), _ENTITIES)),
            "most_entities": _ENTITIES,
            "references": list(list_references(call.app, realm, limit=_REFERENCES)),
            "most": _REFERENCES,
        },
        api="/api/v1/store",
        command="lakesweep store info",
    )


def show_catalog(call: Call[CatalogRequest]) -> PageView:
    """What a catalog or a namespace holds; of a catalog also who may do what with it."""
    within, realm = call.given.within, call.given.realm or call.app.config.store.realm
    catalog, *path = split(within)
    return PageView(
        template="catalog.html",
        title=f"{'Namespace' if path else 'Catalog'} {within}",
        values={
            "realm": realm,
            "above": [
                (name, join((catalog, *path[:number])))
                for number, name in enumerate([catalog, *path])
            ],
            "lists": list(_content(call.app, within, realm)),
            "grants": None
            if path
            else list(islice(list_grants(call.app, catalog, realm), _ENTITIES)),
            "most": _ENTITIES,
        },
        api=None if path else f"/api/v1/grants?catalog={encoded(catalog)}&realm={encoded(realm)}",
        command=command_line("catalog", "table", "list", within, "--realm", realm),
    )


def _content(app: App, within: str, realm: str) -> Iterator[tuple[str, list[EntityLine], bool]]:
    for kind, title in _CONTENT.items():
        found = list(islice(list_entities(app, within, kind, realm), _ENTITIES + 1))
        if found:
            yield title, found[:_ENTITIES], len(found) > _ENTITIES


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
            "principals": list(islice(list_principals(call.app), _ENTITIES)),
            "principal_roles": list(islice(list_roles(call.app), _ENTITIES)),
            "activity": recent_activity(call.app),
            "most_entities": _ENTITIES,
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
