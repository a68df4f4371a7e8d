"""Tokens that give access to the service. Only their hashes are stored, each with an end.

A secret has 256 random bits, so one SHA-256 is enough: there is nothing to guess, and every request
is checked. Records stay after their end, so a service that once had tokens never opens again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from secrets import token_hex, token_urlsafe

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.runs.log_reference import LogReference
from lakesweep.store import NO_INDEX, Attempt, Change, Commit, IndexRoot, Packed, Realm, key, seal

#: The reference behind which they lie.
SERVICE_TOKENS = "service-tokens"
#: How each token begins, so that scanners for secrets can find it.
PREFIX = "lsw_"
#: Sessions are forgotten this long after their end.
_SESSIONS_KEPT = timedelta(days=1)
_LONGEST_ID = 64


class ServiceRole(StrEnum):
    """What a caller of the service may do. Each role may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"

    def covers(self, other: ServiceRole) -> bool:
        """Whether this role may do what the other one may."""
        ranks = list(ServiceRole)
        return ranks.index(self) >= ranks.index(other)


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a token. Moments are microseconds since 1970.

    `principal` is set for sessions: who logged in with client credentials, and `salt` says with
    which secret. `parent` is set for sessions that were begun with another token: they end when
    that one does.
    """

    token: str
    name: str
    role: ServiceRole
    sha256: bytes
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None = None
    revoked_by: str | None = None
    principal: str | None = None
    parent: str | None = None
    salt: bytes | None = None

    @property
    def is_session(self) -> bool:
        """Whether a sign-in made it, rather than a person who needs it later."""
        return self.principal is not None or self.parent is not None

    def is_valid(self, now: int) -> bool:
        """Whether it gives access now."""
        return self.revoked_at is None and now < self.expires_at


class TokensCommit(Commit, frozen=True, kw_only=True):
    """The head of `service-tokens`: from ids to TokenRecord."""

    tokens: IndexRoot = NO_INDEX


#: The types that a store must know to hold them.
TYPES: Mapping[str, type[msgspec.Struct]] = {"service-tokens": TokensCommit}
_TOKENS = Packed(TokenRecord)


@dataclass(frozen=True, slots=True)
class TokenBook:
    """The tokens of one realm. Every question reads what is stored now."""

    realm: Realm
    clock: Clock

    def create(
        self,
        name: str,
        role: ServiceRole,
        expires: datetime,
        by: str,
        principal: str | None = None,
        parent: str | None = None,
        salt: bytes | None = None,
        *,
        is_own_parent: bool = False,
    ) -> tuple[TokenRecord, str]:
        """A new token: its record, and its text, which cannot be read again.

        A session that was begun without a token of ours `is_own_parent`.
        """
        now = self.clock.now()
        if expires <= now:
            raise UsageError("a token must end in the future", hint="--expires 90d")
        secret = token_urlsafe(32)
        record = TokenRecord(
            token=token_hex(6),
            name=name,
            role=role,
            sha256=_hash(secret),
            created_at=micros(now),
            created_by=by,
            expires_at=micros(expires),
            principal=principal,
            parent=parent,
            salt=salt,
        )
        if is_own_parent:
            record = msgspec.structs.replace(record, parent=record.token)

        def change(attempt: Attempt[TokensCommit], head: TokensCommit) -> TokensCommit:
            tokens = attempt.index(head.tokens, _TOKENS)
            oldest = micros(now - _SESSIONS_KEPT)
            over = [k for k, each in tokens.items() if each.is_session and each.expires_at < oldest]
            for old in over:
                tokens.remove(old)
            tokens.put(key(record.token), record)
            attempt.record(Change("add", key("token", record.token)))
            return msgspec.structs.replace(head, tokens=seal(tokens))

        self._log.commit(change, f"token {name}: {by}")
        return record, f"{PREFIX}{record.token}_{secret}"

    def list(self) -> list[TokenRecord]:
        """All tokens, the newest first; also those that have ended."""
        found = [each for _, each in self.realm.index(self._log.head().tokens, _TOKENS).items()]
        return sorted(found, key=lambda each: (each.created_at, each.token), reverse=True)

    @property
    def is_empty(self) -> bool:
        """Whether no token was ever made."""
        return next(iter(self.realm.index(self._log.head().tokens, _TOKENS).items()), None) is None

    def revoke(self, name: str, by: str) -> TokenRecord:
        """End a token, by its id or its name. NotFoundError if no valid one has it."""
        now = micros(self.clock.now())
        ended: list[TokenRecord] = []

        def change(attempt: Attempt[TokensCommit], head: TokensCommit) -> TokensCommit:
            ended.clear()
            tokens = attempt.index(head.tokens, _TOKENS)
            found = [each for _, each in tokens.items() if name in (each.token, each.name)]
            found = [each for each in found if each.is_valid(now)]
            if not found:
                raise NotFoundError(f"no valid token is called {name}", hint="lakesweep token list")
            if len(found) > 1:
                ids = ", ".join(each.token for each in found)
                raise UsageError(f"several tokens are called {name}", hint=f"name one id of {ids}")
            ended.append(msgspec.structs.replace(found[0], revoked_at=now, revoked_by=by))
            tokens.put(key(found[0].token), ended[0])
            attempt.record(Change("update", key("token", found[0].token)))
            return msgspec.structs.replace(head, tokens=seal(tokens))

        self._log.commit(change, f"token {name} is revoked: {by}")
        return ended[0]

    def find(self, text: str) -> TokenRecord | None:
        """The valid token of this text."""
        number, _, secret = text.removeprefix(PREFIX).partition("_")
        tokens = self.realm.index(self._log.head().tokens, _TOKENS)
        found = tokens.get(key(number)) if len(number) <= _LONGEST_ID else None
        # Compared in any case, so that timing does not tell whether an id exists.
        is_same = hmac.compare_digest(_hash(secret), found.sha256 if found else bytes(32))
        now = micros(self.clock.now())
        if found is None or not is_same or not found.is_valid(now):
            return None
        parent = found if found.parent is None else tokens.get(key(found.parent))
        return found if parent is not None and parent.is_valid(now) else None

    @property
    def _log(self) -> LogReference[TokensCommit]:
        return LogReference(self.realm, SERVICE_TOKENS, TokensCommit)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
