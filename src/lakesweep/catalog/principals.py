"""Principals: who can log in, and the secrets that prove it.

A secret is shown once and stored only as a salted hash.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import cache
from secrets import token_bytes, token_hex, token_urlsafe
from typing import Any

import msgspec

from lakesweep.catalog.commits import KEYS, Create, PrincipalsCommit, Update
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.containers.entity_batch import EntityBatch
from lakesweep.catalog.containers.entity_index import IndexedEntity
from lakesweep.catalog.entities import Entity, Principal, SecretHash
from lakesweep.errors import EntityMissingError
from lakesweep.store import Attempt, IndexRoot, Realm, key, seal
from lakesweep.store.reserved_names import PRINCIPALS

#: Two secrets are valid at a time, so that one can be replaced without downtime.
_KEPT_SECRETS = 2
_LONGEST_ID = 200


class Credentials(msgspec.Struct, frozen=True):
    """What a principal logs in with. The secret is not stored; the caller must keep it."""

    client_id: str
    secret: str


class Principals(EntityContainer[PrincipalsCommit]):
    """All principals of a realm."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(realm, PRINCIPALS, PrincipalsCommit)

    def create(
        self, name: str, properties: Mapping[str, str] | None = None
    ) -> tuple[Principal, Credentials]:
        """A new principal, and its secret, which cannot be read again."""
        credentials = Credentials(new_client_id(), new_secret())
        what = Principal(
            client_id=credentials.client_id,
            secrets=(hash_secret(credentials.secret),),
            properties=dict(properties or {}),
        )
        outcome = self.apply([Create((name,), what)])
        return _principal(outcome.results[0].entity), credentials

    def rotate(self, name: str, *, revoke: bool = False) -> Credentials:
        """A new secret; the previous one stays valid until the next rotation, unless revoked."""
        secret = new_secret()
        hashed = hash_secret(secret)
        principal = _principal(self.snapshot(fresh=True).get((name,)))
        secrets = (hashed,) if revoke else (hashed, *principal.secrets)[:_KEPT_SECRETS]
        what = msgspec.structs.replace(principal, secrets=secrets)
        self.apply([Update((name,), what, version=principal.version)])
        return Credentials(principal.client_id, secret)

    def login(self, client_id: str, secret: str) -> Principal:
        """Who has this client id and this secret; EntityMissingError if no principal has both."""
        return self.verify(client_id, secret)[0]

    def verify(self, client_id: str, secret: str) -> tuple[Principal, bytes]:
        """The same, with the salt of that secret: a session ends when the secret is revoked."""
        # Fresh, both: a secret that another process revoked, or a realm that it closed, must not
        # log in for as long as a cache lasts.
        self.realm.verify()
        view = self.snapshot(fresh=True)
        clients = self.realm.index(view.head.clients, KEYS)
        number = clients.get(key(client_id)) if len(client_id) <= _LONGEST_ID else None
        principal = None
        if number is not None:
            principal = _principal(view.by_id(int.from_bytes(number, "big")))
        kept = principal.secrets if principal else (_dummy_hash(),)
        # Try every secret, and a dummy for an unknown client, so that timing reveals nothing.
        matches = [each.salt for each in kept if verify_secret(secret, each)]
        if principal and matches:
            return principal, matches[0]
        raise EntityMissingError("no principal has this client id and this secret")

    def _batch(self, attempt: Attempt[PrincipalsCommit], head: PrincipalsCommit) -> EntityBatch:
        return _PrincipalBatch(attempt, head, self.now(), self.realm.new_id)


class _PrincipalBatch(EntityBatch):
    def __init__(
        self, attempt: Attempt[Any], head: PrincipalsCommit, now: int, new_id: Callable[[], int]
    ) -> None:
        super().__init__(attempt, head, now, new_id)
        self._clients = attempt.index(head.clients, KEYS)

    def indexes(self) -> dict[str, IndexRoot]:
        return {**super().indexes(), "clients": seal(self._clients)}

    def note(self, before: Entity | None, after: Entity | None, old: IndexedEntity | None) -> None:
        del old
        if isinstance(before, Principal):
            self._clients.remove(key(before.client_id))
        if isinstance(after, Principal):
            self._clients.put(key(after.client_id), after.id.to_bytes(8, "big"))


def _principal(entity: Entity | None) -> Principal:
    assert isinstance(entity, Principal)
    return entity


@cache
def _dummy_hash() -> SecretHash:
    return hash_secret("")


#: scrypt with 16 MiB and some tens of milliseconds a try.
_COST = 2**14
_BLOCK = 8
_MEMORY = 64 * 2**20


def new_client_id() -> str:
    """A name to log in with."""
    return token_hex(8)


def new_secret() -> str:
    """A random secret."""
    return token_urlsafe(24)


def hash_secret(secret: str) -> SecretHash:
    """The hash of a secret, which is all that is stored."""
    salt = token_bytes(16)
    return SecretHash(salt, _scrypt(secret, salt, _COST), _COST)


def verify_secret(secret: str, kept: SecretHash) -> bool:
    """Whether this is the secret that was hashed."""
    return hmac.compare_digest(_scrypt(secret, kept.salt, kept.cost), kept.hash)


def _scrypt(secret: str, salt: bytes, cost: int) -> bytes:
    data = secret.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=_BLOCK, p=1, maxmem=_MEMORY, dklen=32)
