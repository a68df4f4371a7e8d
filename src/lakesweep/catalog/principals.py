"""Principals: who can log in, and how they prove who they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from lakesweep.catalog.batch import Batch
from lakesweep.catalog.container import EntityContainer
from lakesweep.catalog.entities import Entity, Principal, SecretHash
from lakesweep.catalog.entries import Found
from lakesweep.catalog.heads import KEYS, PrincipalsCommit
from lakesweep.catalog.mutations import Create, Update
from lakesweep.catalog.secrets import hash_secret, new_client_id, new_secret, proves
from lakesweep.errors import EntityMissingError
from lakesweep.store import Attempt, IndexRoot, Realm, key, seal
from lakesweep.store.names import PRINCIPALS

#: Two secrets are good at a time, so that one can be changed without a moment of darkness.
_KEPT_SECRETS = 2


class Credentials(msgspec.Struct, frozen=True):
    """What somebody logs in with. The secret is not kept anywhere: whoever gets this keeps it."""

    client_id: str
    secret: str


class Principals(EntityContainer[PrincipalsCommit]):
    """All principals of a realm."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(realm, PRINCIPALS, PrincipalsCommit)

    def create(
        self, name: str, properties: Mapping[str, str] | None = None
    ) -> tuple[Principal, Credentials]:
        """A new principal, and the only sight of its secret."""
        credentials = Credentials(new_client_id(), new_secret())
        what = Principal(
            client_id=credentials.client_id,
            secrets=(hash_secret(credentials.secret),),
            properties=dict(properties or {}),
        )
        outcome = self.apply([Create((name,), what)])
        return _principal(outcome.results[0].entity), credentials

    def rotate(self, name: str, *, revoke: bool = False) -> Credentials:
        """A new secret; the one before stays good until the next time, unless it is revoked."""
        secret = new_secret()
        hashed = hash_secret(secret)
        principal = _principal(self.snapshot(fresh=True).get((name,)))
        secrets = (hashed,) if revoke else (hashed, *principal.secrets)[:_KEPT_SECRETS]
        what = msgspec.structs.replace(principal, secrets=secrets)
        self.apply([Update((name,), what, version=principal.version)])
        return Credentials(principal.client_id, secret)

    def login(self, client_id: str, secret: str) -> Principal:
        """Who has this client id and this secret; EntityMissingError if nobody has both."""
        view = self.snapshot()
        number = self.realm.index(view.head.clients, KEYS).get(key(client_id))
        principal = None
        if number is not None:
            principal = _principal(view.by_id(int.from_bytes(number, "big")))
        kept = principal.secrets if principal else (_nobody(),)
        # Every secret is tried, and one for nobody too: time tells nothing about which it was.
        matches = [proves(secret, each) for each in kept]
        if principal and any(matches):
            return principal
        raise EntityMissingError("no principal has this client id and this secret")

    def _batch(self, attempt: Attempt[PrincipalsCommit], head: PrincipalsCommit) -> Batch:
        return _PrincipalBatch(attempt, head, self.now(), self.realm.new_id)


class _PrincipalBatch(Batch):
    def __init__(
        self, attempt: Attempt[Any], head: PrincipalsCommit, now: int, new_id: Callable[[], int]
    ) -> None:
        super().__init__(attempt, head, now, new_id)
        self._clients = attempt.index(head.clients, KEYS)

    def indexes(self) -> dict[str, IndexRoot]:
        return {**super().indexes(), "clients": seal(self._clients)}

    def note(self, before: Entity | None, after: Entity | None, old: Found | None) -> None:
        del old
        if isinstance(before, Principal):
            self._clients.remove(key(before.client_id))
        if isinstance(after, Principal):
            self._clients.put(key(after.client_id), after.id.to_bytes(8, "big"))


def _principal(entity: Entity | None) -> Principal:
    assert isinstance(entity, Principal)
    return entity


@cache
def _nobody() -> SecretHash:
    return hash_secret("")
