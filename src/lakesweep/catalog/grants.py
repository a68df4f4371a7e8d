"""Privileges, what each one includes, and grants: who may do what with which entity.

A grant names both ends by id, so it follows renames and never passes to a new entity that
reuses an old name. A catalog's grants have their own reference and are removed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias

import msgspec

from lakesweep.catalog.commits import GrantsCommit
from lakesweep.catalog.entities import NO_PARENT, Entity, EntityType, kind_of
from lakesweep.clock import micros
from lakesweep.errors import UsageError
from lakesweep.store import BYTES, Attempt, Change, Packed, Realm, key, seal
from lakesweep.store.index import Index
from lakesweep.store.index.keys import decode


class Privilege(StrEnum):
    """Something that a role may do. Names never change: grants hold them."""

    #: To be a member: of a principal role, or to have a catalog role.
    USE_ROLE = "use-role"

    MANAGE_REALM = "manage-realm"
    CREATE_CATALOG = "create-catalog"

    MANAGE_CATALOG = "manage-catalog"
    MANAGE_ACCESS = "manage-access"
    MANAGE_CONTENT = "manage-content"

    LIST = "list"
    READ_METADATA = "read-metadata"
    WRITE_METADATA = "write-metadata"
    READ_DATA = "read-data"
    WRITE_DATA = "write-data"
    CREATE_NAMESPACE = "create-namespace"
    CREATE_TABLE = "create-table"
    CREATE_VIEW = "create-view"
    CREATE_POLICY = "create-policy"
    ATTACH_POLICY = "attach-policy"
    DROP = "drop"


_READ = frozenset({Privilege.LIST, Privilege.READ_METADATA})
_CONTENT = frozenset(
    {
        *_READ,
        *(Privilege.WRITE_METADATA, Privilege.READ_DATA, Privilege.WRITE_DATA),
        *(Privilege.CREATE_NAMESPACE, Privilege.CREATE_TABLE, Privilege.CREATE_VIEW),
        *(Privilege.CREATE_POLICY, Privilege.ATTACH_POLICY, Privilege.DROP),
    }
)
#: What a privilege includes beside itself, all the way down.
INCLUDES: Mapping[Privilege, frozenset[Privilege]] = {
    Privilege.READ_METADATA: frozenset({Privilege.LIST}),
    Privilege.WRITE_METADATA: _READ,
    Privilege.READ_DATA: _READ,
    Privilege.WRITE_DATA: _READ | {Privilege.READ_DATA, Privilege.WRITE_METADATA},
    Privilege.MANAGE_CONTENT: _CONTENT,
    Privilege.MANAGE_CATALOG: _CONTENT | {Privilege.MANAGE_CONTENT, Privilege.MANAGE_ACCESS},
    Privilege.MANAGE_REALM: frozenset(Privilege) - {Privilege.USE_ROLE, Privilege.MANAGE_REALM},
}
_ROLES = frozenset({EntityType.PRINCIPAL_ROLE, EntityType.CATALOG_ROLE})
_ON_REALM = frozenset(Privilege) - {Privilege.USE_ROLE}
_ON_CATALOG = _ON_REALM - {Privilege.MANAGE_REALM, Privilege.CREATE_CATALOG}
_ON_CONTENT = _ON_CATALOG - {Privilege.MANAGE_CATALOG}


def included(privileges: Iterable[Privilege]) -> frozenset[Privilege]:
    """These privileges with all that they include."""
    given = frozenset(privileges)
    return given.union(*(INCLUDES.get(each, frozenset()) for each in given))


def grantable_on(kind: EntityType) -> frozenset[Privilege]:
    """What can be granted on an entity of this kind."""
    if kind in _ROLES:
        return frozenset({Privilege.USE_ROLE})
    if kind is EntityType.ROOT:
        return _ON_REALM
    return _ON_CATALOG if kind is EntityType.CATALOG else _ON_CONTENT


def parse_privilege(text: str) -> Privilege:
    """The privilege of this name; UsageError with the nearest one if there is none."""
    try:
        return Privilege(text)
    except ValueError:
        names = [each.value for each in Privilege]
        near = get_close_matches(text, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no privilege {text!r}", hint=hint) from None


class EntityRef(msgspec.Struct, frozen=True, array_like=True):
    """One end of a grant: an entity, and the catalog that it is in, if it is in one."""

    kind: EntityType
    id: int
    catalog: int = 0


#: The realm itself.
REALM = EntityRef(EntityType.ROOT, NO_PARENT)


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """The privileges of a grantee on a securable, and when the first was granted."""

    securable: EntityRef
    grantee: EntityRef
    privileges: tuple[Privilege, ...]
    created_at: int

    @property
    def key(self) -> bytes:
        return key(self.securable.id, self.grantee.id)


GRANTS = Packed(Grant)
_Change: TypeAlias = Callable[[frozenset[Privilege]], frozenset[Privilege]]


def entity_ref(entity: Entity, catalog: int = 0) -> EntityRef:
    """An entity as an end of a grant."""
    return EntityRef(kind_of(entity), entity.id, catalog)


class Grants:
    """The grants behind one reference. Each change is one commit."""

    def __init__(self, realm: Realm, reference: str) -> None:
        self.realm = realm
        self.reference = reference

    def grant(
        self,
        securable: EntityRef,
        grantee: EntityRef,
        privileges: Iterable[Privilege],
        author: str = "",
    ) -> bool:
        """Grant privileges; returns whether anything changed. UsageError if one does not apply."""
        wanted = frozenset(privileges)
        strange = sorted(wanted - grantable_on(securable.kind))
        if strange:
            can = ", ".join(sorted(grantable_on(securable.kind)))
            raise UsageError(
                f"{strange[0]} cannot be granted on a {securable.kind.words}", hint=f"one of {can}"
            )
        return self._alter(securable, grantee, lambda has: has | wanted, "grant", author)

    def revoke(
        self,
        securable: EntityRef,
        grantee: EntityRef,
        privileges: Iterable[Privilege] | None = None,
        author: str = "",
    ) -> bool:
        """Revoke these privileges, or all of them; returns whether anything changed."""
        gone = None if privileges is None else frozenset(privileges)

        def keep(has: frozenset[Privilege]) -> frozenset[Privilege]:
            return frozenset() if gone is None else has - gone

        return self._alter(securable, grantee, keep, "revoke", author)

    def on(self, securable: int) -> Iterator[Grant]:
        """The grants on an entity."""
        return (grant for _, grant in self._index().prefix(key(securable)))

    def to(self, grantee: int) -> Iterator[Grant]:
        """The grants that an entity has."""
        head = self._head()
        grants = self.realm.index(head.grants, GRANTS)
        for found, _ in self.realm.index(head.grantees, BYTES).prefix(key(grantee)):
            grant = grants.get(key(decode(found)[1], grantee))
            if grant is not None:
                yield grant

    def get(self, securable: int, grantee: int) -> Grant | None:
        """The grant from one to the other."""
        return self._index().get(key(securable, grantee))

    def all(self, behind: bytes = b"") -> Iterator[Grant]:
        """All grants, by securable, or those from a key on."""
        return (grant for _, grant in self._index().items(behind))

    def remove(self, grants: Iterable[Grant], message: str) -> int:
        """Remove grants that have not changed; returns how many."""
        wanted, removed = list(grants), 0

        def change(attempt: Attempt[GrantsCommit]) -> GrantsCommit | None:
            nonlocal removed
            batch = _GrantBatch(attempt)
            removed = sum(batch.remove(grant) for grant in wanted)
            return batch.head() if removed else None

        self.realm.commit(self.reference, change, GrantsCommit, message=message)
        return removed

    def _alter(
        self, securable: EntityRef, grantee: EntityRef, change: _Change, verb: str, author: str
    ) -> bool:
        now = micros(self.realm.clock.now())

        def commit(attempt: Attempt[GrantsCommit]) -> GrantsCommit | None:
            batch = _GrantBatch(attempt)
            return batch.head() if batch.alter(securable, grantee, change, now) else None

        message = f"{verb} on {securable.kind.words} {securable.id}"
        committed = self.realm.commit(
            self.reference, commit, GrantsCommit, message=message, author=author
        )
        return committed.changed

    def _index(self) -> Index[Grant]:
        return self.realm.index(self._head().grants, GRANTS)

    def _head(self) -> GrantsCommit:
        # Fresh: a grant that another process revoked must not be good for as long as a cache lasts.
        found = self.realm.head(self.reference, GrantsCommit, fresh=True)
        return GrantsCommit() if found is None else found.value


class _GrantBatch:
    """Changes to grants within one attempt."""

    def __init__(self, attempt: Attempt[GrantsCommit]) -> None:
        head = attempt.head or GrantsCommit()
        self._attempt = attempt
        self._grants = attempt.index(head.grants, GRANTS)
        self._grantees = attempt.index(head.grantees, BYTES)

    def alter(self, securable: EntityRef, grantee: EntityRef, change: _Change, now: int) -> bool:
        """Change the privileges of a grant; returns whether anything changed."""
        old = self._grants.get(key(securable.id, grantee.id))
        has = frozenset(old.privileges) if old else frozenset()
        after = change(has)
        if after == has:
            return False
        if not after:
            return old is not None and self.remove(old)
        since = old.created_at if old else now
        new = Grant(securable, grantee, tuple(sorted(after)), since)
        self._grants.put(new.key, new)
        self._grantees.put(key(grantee.id, securable.id), b"")
        self._attempt.record(Change("update" if old else "add", new.key))
        return True

    def remove(self, grant: Grant) -> bool:
        """Remove a grant if it has not changed; returns whether it was removed."""
        if self._grants.get(grant.key) != grant:
            return False
        self._grants.remove(grant.key)
        self._grantees.remove(key(grant.grantee.id, grant.securable.id))
        self._attempt.record(Change("remove", grant.key))
        return True

    def head(self) -> GrantsCommit:
        """The head after all changes."""
        return GrantsCommit(grants=seal(self._grants), grantees=seal(self._grantees))
