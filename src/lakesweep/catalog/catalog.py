"""One catalog and its content, changed in batches that may mix kinds of entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cached_property

import msgspec

from lakesweep.catalog.commits import CatalogRolesCommit, ContentCommit, DroppedEntity
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.containers.content_batch import ContentBatch
from lakesweep.catalog.containers.entity_batch import EntityBatch
from lakesweep.catalog.containers.entity_index import EntityIndex
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import (
    NO_PARENT,
    CatalogDefinition,
    CatalogStatus,
    Entity,
    Table,
    TableMemo,
    View,
)
from lakesweep.catalog.grants import Grants
from lakesweep.errors import RefusedError, UsageError
from lakesweep.store import Attempt, Realm, Stored
from lakesweep.store.reserved_names import catalog_content, catalog_grants, catalog_roles


class Catalog(EntityContainer[ContentCommit]):
    """Namespaces, tables, views, generic tables and policies of one catalog.

    All of them lie behind one reference, so one batch may mix them; its roles and grants lie behind
    references of their own.
    """

    def __init__(self, realm: Realm, definition: CatalogDefinition) -> None:
        super().__init__(realm, catalog_content(definition.id), ContentCommit)
        self.definition = definition

    @property
    def id(self) -> int:
        return self.definition.id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_active(self) -> bool:
        """Whether the catalog is in use, and not being purged."""
        return self.definition.status is CatalogStatus.ACTIVE

    @cached_property
    def roles(self) -> EntityContainer[CatalogRolesCommit]:
        """The roles of this catalog."""
        return EntityContainer(self.realm, catalog_roles(self.id), CatalogRolesCommit)

    @cached_property
    def grants(self) -> Grants:
        """Grants on this catalog and its content, and the members of its roles."""
        return Grants(self.realm, catalog_grants(self.id))

    def snapshot(self, *, fresh: bool = False) -> ContentSnapshot:
        """The content of the catalog as of the newest commit."""
        return self._view(self.realm.head(self.reference, ContentCommit, fresh=fresh))

    def at(self, address: str) -> Iterator[tuple[Entity, tuple[str, ...]]]:
        """The entities that have files at, above or below an address, with their paths."""
        return self.snapshot().at(address)

    def dropped(self) -> Sequence[tuple[int, DroppedEntity]]:
        """Dropped entities that still retain their files, and when they were dropped."""
        return list(self.snapshot().dropped(self.now()))

    def memo(self, table: Table | View) -> TableMemo | None:
        """What the metadata file of a table or view says, if it was read."""
        if table.memo is None:
            return None
        stored = self.realm.objects.fetch(table.memo, TableMemo)
        return None if stored is None else stored.value

    def configure(
        self, *, keep_dropped: timedelta | None = None, allow_overlaps: bool | None = None
    ) -> bool:
        """Change the retention of dropped tables, or whether tables may overlap.

        Returns whether anything changed; otherwise there is no commit.
        """
        seconds = None if keep_dropped is None else checked_seconds(keep_dropped)

        def change(attempt: Attempt[ContentCommit]) -> ContentCommit | None:
            head = attempt.head or self._first_head()
            after = msgspec.structs.replace(
                head,
                keep_dropped_seconds=head.keep_dropped_seconds if seconds is None else seconds,
                allow_overlaps=head.allow_overlaps if allow_overlaps is None else allow_overlaps,
            )
            return None if after == head else after

        return self._commit(change, "configure the catalog").changed

    def close(self, *, if_empty: bool) -> ContentCommit:
        """Refuse all further changes, because the catalog is being dropped; its last state.

        With `if_empty`, RefusedError unless nothing is in it.
        """

        def change(attempt: Attempt[ContentCommit]) -> ContentCommit:
            head = attempt.head or self._first_head()
            batch = ContentBatch(attempt, head, self.now(), self.realm.new_id)
            if if_empty:
                self._check_empty(batch.entries)
            return head if head.closed else msgspec.structs.replace(head, closed=True)

        closed = self._commit(change, "close the catalog").head
        return closed.value if closed else self._first_head()

    def check_empty(self) -> None:
        """RefusedError unless nothing is in the catalog."""
        self._check_empty(self.snapshot(fresh=True).entries)

    def _check_empty(self, entries: EntityIndex) -> None:
        if not entries.is_empty(NO_PARENT):
            raise RefusedError(
                "not-empty",
                f"catalog {self.name} is not empty",
                hint=f"drop what is in it, or: lakesweep catalog purge {self.name}",
            )

    def begin(self, keep_dropped: timedelta, *, allow_overlaps: bool) -> None:
        """Create the references of a new catalog, and its first commit."""
        names = (catalog_content(self.id), catalog_roles(self.id), catalog_grants(self.id))
        seconds = checked_seconds(keep_dropped)
        self.realm.references.ensure(names)
        first = ContentCommit(
            catalog=self.id, keep_dropped_seconds=seconds, allow_overlaps=allow_overlaps
        )
        self._commit(lambda attempt: attempt.head or first, f"create catalog {self.name}")

    def _view(self, stored: Stored[ContentCommit] | None) -> ContentSnapshot:
        stored = stored or self._before_first()
        if stored.value.catalog != self.id:
            raise UsageError("this is not a page token of this catalog")
        return ContentSnapshot(self.realm, stored)

    def _first_head(self) -> ContentCommit:
        return ContentCommit(catalog=self.id)

    def _batch(self, attempt: Attempt[ContentCommit], head: ContentCommit) -> EntityBatch:
        if head.closed:
            raise RefusedError(
                "catalog-state",
                f"catalog {self.name} is being dropped and cannot be changed",
                hint=f"lakesweep catalog show {self.name}",
            )
        return ContentBatch(attempt, head, self.now(), self.realm.new_id)


def checked_seconds(duration: timedelta) -> int:
    """Whole seconds; UsageError if negative."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        raise UsageError("the retention of dropped tables cannot be negative")
    return seconds
