"""Use cases of tokens for the service: create, list and revoke."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole, TokenRecord
from lakesweep.clock import micros, moment
from lakesweep.errors import UsageError
from lakesweep.runs.sessions import user_name

#: How long a token lasts unless its maker says otherwise.
USUAL_LIFE = timedelta(days=90)
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class CreateTokenRequest:
    """A new token with a role and an end; `by` is its maker, by default the user of the process."""

    name: str
    role: ServiceRole
    life: timedelta = USUAL_LIFE
    by: str | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; `state` is active, expired or revoked."""

    token: str
    name: str
    role: ServiceRole
    state: str
    created: datetime
    created_by: str
    expires: datetime
    revoked: datetime | None
    revoked_by: str | None
    principal: str | None

    @classmethod
    def of(cls, record: TokenRecord, now: datetime) -> TokenView:
        """The view of a stored token."""
        ended = "expired" if record.revoked_at is None else "revoked"
        return cls(
            token=record.token,
            name=record.name,
            role=record.role,
            state="active" if record.is_valid(micros(now)) else ended,
            created=moment(record.created_at),
            created_by=record.created_by,
            expires=moment(record.expires_at),
            revoked=None if record.revoked_at is None else moment(record.revoked_at),
            revoked_by=record.revoked_by,
            principal=record.principal,
        )


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token and its text, which is shown this once."""

    text: str


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, the newest first."""

    tokens: tuple[TokenView, ...]


def create_token(app: App, request: CreateTokenRequest) -> NewToken:
    """Create a token. Its text is in the result and nowhere else."""
    if not request.name.strip() or len(request.name) > _LONGEST_NAME:
        raise UsageError(
            f"a token needs a name of 1 to {_LONGEST_NAME} characters",
            hint="name who uses it, such as ci",
        )
    by, now = request.by or user_name(), app.clock.now()
    record, text = app.tokens.create(request.name, request.role, now + request.life, by)
    return NewToken(**msgspec.structs.asdict(TokenView.of(record, now)), text=text)


def list_tokens(app: App) -> TokenList:
    """All tokens, also those that have ended."""
    now = app.clock.now()
    return TokenList(tuple(TokenView.of(each, now) for each in app.known_tokens.list()))


def revoke_token(app: App, name: str, by: str | None = None) -> TokenView:
    """End a token at once, by its id or its name."""
    return TokenView.of(app.tokens.revoke(name, by or user_name()), app.clock.now())
