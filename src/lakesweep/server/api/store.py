"""The store, its realms, what lies in quarantine, principals, and tokens."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

import msgspec

from lakesweep.catalog.service_tokens import ServiceRole
from lakesweep.operations.catalogs import access, tokens
from lakesweep.operations.catalogs.tokens import (
    CreateTokenRequest,
    NewToken,
    TokenList,
    TokenView,
)
from lakesweep.operations.catalogs.views import EntityLine, EntityView
from lakesweep.operations.lakes.quarantine import QuarantineList, list_quarantines
from lakesweep.operations.store import realms
from lakesweep.operations.store.realms import RealmList, RealmView
from lakesweep.operations.store.store import StoreInfo, store_info
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.server.auth.authentication import AccessToken
from lakesweep.server.http.problems import HttpError
from lakesweep.units import parse_duration


class RealmPage(RealmList, frozen=True, kw_only=True):
    """A page of realms."""

    next: str | None = None


class QuarantinePage(QuarantineList, frozen=True, kw_only=True):
    """A page of quarantines, newest first."""

    next: str | None = None


class PrincipalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of principals."""

    principals: tuple[EntityLine, ...]
    next: str | None = None


class TokenPage(TokenList, frozen=True, kw_only=True):
    """A page of tokens, newest first."""

    next: str | None = None


class NewTokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new token; `expires` is how long it lasts, as `90d`."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    role: ServiceRole
    expires: str = "90d"


class LoginForm(msgspec.Struct, frozen=True, kw_only=True):
    """Client credentials of a principal, as a form (OAuth 2)."""

    grant_type: str
    client_id: str
    client_secret: str


def show_store(call: Call[Nothing]) -> StoreInfo:
    """The database of the store."""
    return store_info(call.app)


def list_realms(call: Call[ListRequest]) -> RealmPage:
    """All realms."""
    found = realms.list_realms(call.app).realms
    page, after = page_of(found, call.given, lambda each: (each.name,))
    return RealmPage(page, next=after)


def show_realm(call: Call[Nothing]) -> RealmView:
    """One realm."""
    return realms.show_realm(call.app, call.names["realm"])


def list_quarantine(call: Call[ListRequest]) -> QuarantinePage:
    """Everything that was ever quarantined."""
    found = sorted(
        list_quarantines(call.app).held, key=lambda each: (each.since, each.plan), reverse=True
    )
    page, after = page_of(found, call.given, lambda each: (each.since, each.plan), descending=True)
    return QuarantinePage(page, next=after)


def list_principals(call: Call[ListRequest]) -> PrincipalPage:
    """The principals of the realm."""
    found = sorted(access.list_principals(call.app), key=lambda each: each.name)
    page, after = page_of(found, call.given, lambda each: (each.name,))
    return PrincipalPage(principals=page, next=after)


def show_principal(call: Call[Nothing]) -> EntityView:
    """One principal."""
    return access.show_principal(call.app, call.names["principal"])


def list_tokens(call: Call[ListRequest]) -> TokenPage:
    """All tokens, without their secrets."""
    found = tokens.list_tokens(call.app).tokens
    page, after = page_of(
        found, call.given, lambda each: (each.created.isoformat(), each.token), descending=True
    )
    return TokenPage(page, next=after)


def create_token(call: Call[NewTokenBody]) -> NewToken:
    """A new token, whose text is shown this once."""
    given = call.given
    life: timedelta = parse_duration(given.expires)
    request = CreateTokenRequest(given.name, given.role, life, call.caller.name)
    return tokens.create_token(call.app, request)


def revoke_token(call: Call[Nothing]) -> TokenView:
    """End a token at once."""
    return tokens.revoke_token(call.app, call.names["token"], call.caller.name)


def log_in(call: Call[LoginForm]) -> Reply:
    """A session for a principal."""
    if call.given.grant_type != "client_credentials":
        raise HttpError(
            HTTPStatus.BAD_REQUEST, "only the grant type client_credentials is supported"
        )
    given = call.given
    session: AccessToken = call.around.authenticator.log_in(
        given.client_id, given.client_secret, call.address
    )
    return Reply(session, headers={"cache-control": "no-store"})
