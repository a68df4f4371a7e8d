"""Apply a batch of changes to one container, within one attempt of a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, assert_never

import msgspec

from lakesweep.catalog.commits import (
    KEYS,
    NAMED,
    Create,
    Drop,
    EntitiesCommit,
    Mutation,
    MutationResult,
    MutationStatus,
    NameEntry,
    Remember,
    Rename,
    Undrop,
    Update,
)
from lakesweep.catalog.containers.entity_index import EntityIndex, IndexedEntity, key_of
from lakesweep.catalog.entities import (
    Entity,
    EntityType,
    Name,
    Table,
    TableMemo,
    View,
    join,
    kind_of,
    split,
)
from lakesweep.errors import (
    DamagedRowError,
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    LakesweepError,
    RefusedError,
    UsageError,
)
from lakesweep.store import Attempt, Change, IndexRoot, Link, key, seal

E = TypeVar("E", bound=Entity)


class EntityBatch:
    """Mutations of one container, made one after the other; each sees what those before it did.

    A mutation that fails changes nothing. Subclasses say what may not be (`check`), and note what
    happened in indexes of their own (`note`).
    """

    def __init__(
        self, attempt: Attempt[Any], head: EntitiesCommit, now: int, new_id: Callable[[], int]
    ) -> None:
        self.attempt = attempt
        self._names = attempt.index(head.names, NAMED)
        self._ids = attempt.index(head.ids, KEYS)
        self._new_id = new_id
        self.entries = EntityIndex(self._names, self._ids)
        self.now = now

    def run(self, mutations: Sequence[Mutation]) -> list[MutationResult]:
        """Apply all mutations. The caller does not commit if one of them failed."""
        return [self._try(mutation) for mutation in mutations]

    def indexes(self) -> dict[str, IndexRoot]:
        """The indexes after all changes, by their names in the head."""
        return {"names": seal(self._names), "ids": seal(self._ids)}

    def check(self, before: Entity | None, after: Entity | None) -> None:
        """Raise if an entity may not become this."""

    def note(self, before: Entity | None, after: Entity | None, old: IndexedEntity | None) -> None:
        """Keep other indexes true; `old` is the entry that was there before."""

    def undrop(self, mutation: Undrop) -> MutationResult:
        """Bring back what was dropped, where that is remembered."""
        raise UsageError(f"{join(split(mutation.name))} is nothing that can be brought back")

    def remember(self, mutation: Remember) -> MutationResult:
        """Note a request, where requests are remembered."""
        raise UsageError(f"requests such as {mutation.key.hex()} are remembered in catalogs only")

    def load(self, found: IndexedEntity) -> Entity:
        """The entity of an entry."""
        return self.fetch(found.named.id, found.named.object)

    def fetch(self, number: int, stored: Link) -> Entity:
        """The entity that lies in an object."""
        entity = self.attempt.fetch(stored, Entity)
        if entity is None:
            raise DamagedRowError(f"the object of entity {number} is missing")
        return entity

    def remove(self, found: IndexedEntity, path: tuple[str, ...]) -> Entity:
        """Remove an entity; returns it as it was."""
        before = self.load(found)
        self.check(before, None)
        self.note(before, None, found)
        self._names.remove(found.key)
        self._ids.remove(key(before.id))
        self.attempt.record(Change("remove", path_key(path)))
        return before

    def _try(self, mutation: Mutation) -> MutationResult:
        try:
            return self._make(mutation)
        except LakesweepError as error:
            return MutationResult(MutationStatus.FAILED, error=error)

    def _make(self, mutation: Mutation) -> MutationResult:
        match mutation:
            case Create():
                return self._create(mutation)
            case Update():
                return self._update(mutation)
            case Rename():
                return self._rename(mutation)
            case Drop():
                return self._drop(mutation)
            case Undrop():
                return self.undrop(mutation)
            case Remember():
                return self.remember(mutation)
            case _:
                assert_never(mutation)

    def _create(self, mutation: Create) -> MutationResult:
        path = split(mutation.name)
        parent = self.free_place(path)
        after = msgspec.structs.replace(
            mutation.what,
            id=self._new_id(),
            name=path[-1],
            parent=parent,
            version=1,
            created_at=self.now,
            updated_at=self.now,
        )
        self.check(None, after)
        after = self.put(None, self._with_memo(after, mutation.memo))
        self.attempt.record(Change("add", path_key(path)))
        return MutationResult(MutationStatus.CREATED, after)

    def _update(self, mutation: Update) -> MutationResult:
        found = self._expect(mutation.name, mutation.version, kind_of(mutation.what))
        before = self.load(found)
        kept = {name: getattr(before, name) for name in _GIVEN}
        after = _with_old_memo(msgspec.structs.replace(mutation.what, **kept), before)
        if after == before and mutation.memo is None:
            return MutationResult(MutationStatus.UNCHANGED, before)
        after = self.next_version(after)
        self.check(before, after)
        after = self.put(found, self._with_memo(after, mutation.memo), before)
        self.attempt.record(Change("update", path_key(split(mutation.name))))
        return MutationResult(MutationStatus.UPDATED, after)

    def _rename(self, mutation: Rename) -> MutationResult:
        found = self._expect(mutation.name, mutation.version, mutation.kind)
        old, new = split(mutation.name), split(mutation.to)
        before = self.load(found)
        if old == new:
            return MutationResult(MutationStatus.UNCHANGED, before)
        parent = self.free_place(new)
        if self.entries.lies_in(parent, before.id):
            raise UsageError(f"{join(old)} cannot be moved into itself", hint="move it elsewhere")
        after = self.next_version(msgspec.structs.replace(before, name=new[-1], parent=parent))
        self.check(before, after)
        self.put(found, after, before)
        self.attempt.record(Change("rename", path_key(new), path_key(old)))
        return MutationResult(MutationStatus.RENAMED, after)

    def _drop(self, mutation: Drop) -> MutationResult:
        found = self._expect(mutation.name, mutation.version, mutation.kind)
        path = split(mutation.name)
        if found.named.kind is EntityType.NAMESPACE and not self.entries.is_empty(found.named.id):
            raise RefusedError(
                "not-empty", f"namespace {join(path)} is not empty", hint="drop what lies in it"
            )
        return MutationResult(MutationStatus.DROPPED, self.remove(found, path))

    def _expect(self, name: Name, version: int | None, kind: EntityType | None) -> IndexedEntity:
        """The entity with a name, if it has the version that the caller expects."""
        path = split(name)
        found = self.entries.find(path)
        if found is None or kind not in {None, found.named.kind}:
            raise entity_missing(path, kind, found)
        if version is not None:
            has = self.load(found).version
            if has != version:
                raise EntityChangedError(f"{join(path)} now has version {has}, not {version}")
        return found

    def free_place(self, path: tuple[str, ...]) -> int:
        """The id of the parent in which the last name of a path is free."""
        parent = self.entries.parent(path)
        if parent is None:
            raise EntityMissingError(
                f"there is no namespace {join(path[:-1])}", hint="create the namespace first"
            )
        there = self.entries.child(parent, path[-1])
        if there is not None:
            raise EntityExistsError(f"there is a {there.named.kind.words} {join(path)} already")
        return parent

    def next_version(self, entity: E) -> E:
        """The entity as a change of its present version."""
        now = max(self.now, entity.updated_at)
        return msgspec.structs.replace(entity, version=entity.version + 1, updated_at=now)

    def _with_memo(self, entity: Entity, memo: TableMemo | None) -> Entity:
        if memo is None or not isinstance(entity, Table | View):
            return entity
        return msgspec.structs.replace(entity, memo=self.attempt.write(memo))

    def put(self, old: IndexedEntity | None, after: Entity, before: Entity | None = None) -> Entity:
        """Write an entity in the place of the one that was there, if there was one."""
        self.note(before, after, old)
        name_key = key_of(after)
        if old is not None and old.key != name_key:
            self._names.remove(old.key)
        self._names.put(name_key, NameEntry(after.id, kind_of(after), self.attempt.write(after)))
        self._ids.put(key(after.id), name_key)
        return after


def path_key(path: tuple[str, ...]) -> bytes:
    """A path as change records have it; it may be longer than a key of an index."""
    return b"".join(map(key, path))


def entity_missing(
    path: tuple[str, ...], kind: EntityType | None, found: IndexedEntity | None
) -> EntityMissingError:
    """The error for a name that nothing has, or only something of another kind."""
    noun = "entity" if kind is None else kind.words
    but = "" if found is None else f"; it is a {found.named.kind.words}"
    return EntityMissingError(f"there is no {noun} {join(path)}{but}")


def _with_old_memo(after: Entity, before: Entity) -> Entity:
    """Metadata files never change: what was read of one stays true while it is named."""
    if not (isinstance(after, Table | View) and isinstance(before, Table | View)):
        return after
    is_same = after.metadata_location == before.metadata_location
    return msgspec.structs.replace(after, memo=before.memo if is_same else None)


#: Fields that an update must not set.
_GIVEN = ("id", "name", "parent", "version", "created_at", "updated_at")
