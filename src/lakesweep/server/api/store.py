"""The store, its realms and its log, what lies in quarantine, and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated

import msgspec

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.operations.catalogs import tokens
from lakesweep.operations.catalogs.tokens import (
    CreateTokenRequest,
    NewToken,
    TokenList,
    TokenView,
)
from lakesweep.operations.lakes.quarantine import (
    QuarantineList,
    QuarantineView,
    ended_holds,
    list_quarantines,
)
from lakesweep.operations.store import log, realms, store
from lakesweep.operations.store.log import ReadLogRequest, ReferenceView
from lakesweep.operations.store.realms import (
    CreatedRealm,
    CreateRealmRequest,
    RealmList,
    RealmView,
)
from lakesweep.operations.store.store import (
    MaintainStoreRequest,
    MaintenancePreview,
    StoreInfo,
    store_info,
)
from lakesweep.server.api.call import JSON_LINES, Call, Nothing, Reply, StreamReply
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


class RealmBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new realm."""

    name: str
    properties: dict[str, str] = {}


class QuarantineRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether to list only what may be emptied, because its hold has ended."""

    ended: bool = False


class RealmsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The realms to maintain; without any, the state of each one decides."""

    realms: tuple[str, ...] = ()
    purge_realms: tuple[str, ...] = ()


class ReferencesRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The references of which realm; by default that of the service."""

    realm: str | None = None


class ReferencePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of references."""

    references: tuple[ReferenceView, ...]
    next: str | None = None


class CommitsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which commits of a reference: after a commit, or since a time."""

    realm: str | None = None
    after: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}$")] | None = None
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    oldest_first: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


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


def create_realm(call: Call[RealmBody]) -> CreatedRealm:
    """A new realm, with the secret of its first principal, which is shown this once."""
    given = call.given
    return realms.create_realm(call.app, CreateRealmRequest(given.name, given.properties))


def activate_realm(call: Call[Nothing]) -> RealmView:
    """Make a realm usable again."""
    return realms.activate_realm(call.app, call.names["realm"])


def deactivate_realm(call: Call[Nothing]) -> RealmView:
    """Refuse all use of a realm."""
    return realms.deactivate_realm(call.app, call.names["realm"])


def list_references(call: Call[ReferencesRequest]) -> ReferencePage:
    """All references of a realm."""
    found = sorted(log.list_references(call.app, call.given.realm), key=lambda each: each.reference)
    page, after = page_of(found, call.given, lambda each: (each.reference,))
    return ReferencePage(references=page, next=after)


def stream_log(call: Call[CommitsRequest]) -> StreamReply:
    """The commits of a reference, however many there are."""
    given = call.given
    start = given.since if given.after is None else int(given.after)
    request = ReadLogRequest(
        call.names["reference"], given.realm, start, given.oldest_first, given.limit
    )
    commits = log.read_log(call.app, request)
    return StreamReply((msgspec.json.encode(each) + b"\n" for each in commits), JSON_LINES)


def preview_maintenance(call: Call[RealmsBody]) -> MaintenancePreview:
    """What maintenance would work on."""
    given = call.given
    request = MaintainStoreRequest(realms=given.realms, purge_realms=given.purge_realms)
    return store.preview_maintenance(call.app, request)


def list_quarantine(call: Call[QuarantineRequest]) -> QuarantinePage:
    """Everything that was ever quarantined."""
    found = sorted(_quarantines(call), key=lambda each: (each.since, each.plan), reverse=True)
    page, after = page_of(found, call.given, lambda each: (each.since, each.plan), descending=True)
    return QuarantinePage(page, next=after)


def list_tokens(call: Call[ListRequest]) -> TokenPage:
    """All tokens, without their secrets."""
    found = tokens.list_tokens(call.app).tokens
    page, after = page_of(
        found, call.given, lambda each: (each.created.isoformat(), each.token), descending=True
    )
    return TokenPage(page, next=after)


def _quarantines(call: Call[QuarantineRequest]) -> Iterable[QuarantineView]:
    held = list_quarantines(call.app).held
    if not call.given.ended:
        return held
    ended = set(ended_holds(call.app))
    return [each for each in held if each.plan in ended]


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
