"""Everything in a realm: its catalogs, and who may use them.

    catalogs = Catalogs(realm)
    shop = catalogs.create("shop", location="s3://lake/shop")
    shop.apply([
        Create("sales", Namespace()),
        Create("sales.orders", Table(metadata_location="s3://lake/shop/…/00001.metadata.json")),
    ])

A catalog is active until it is dropped or purged. Then its name is free, and its content keeps
its files until the grace period for dropped tables ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cached_property

import msgspec

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.commits import (
    KEEP_DROPPED_SECONDS,
    CatalogsCommit,
    Create,
    MutationStatus,
    PrincipalRolesCommit,
    RootCommit,
    Update,
)
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.containers.content_batch import dropping_at
from lakesweep.catalog.containers.entity_batch import EntityBatch, path_key
from lakesweep.catalog.containers.entity_index import LEAVING, OTHERS
from lakesweep.catalog.containers.locations import check_address
from lakesweep.catalog.containers.snapshot import ContainerSnapshot
from lakesweep.catalog.entities import (
    NO_PARENT,
    CatalogDefinition,
    CatalogStatus,
    Entity,
    RootEntity,
    ScheduledTask,
    check_name,
)
from lakesweep.catalog.grants import Grants
from lakesweep.catalog.policy_mappings import PolicyMappings
from lakesweep.catalog.principals import Principals
from lakesweep.catalog.tasks import Tasks
from lakesweep.errors import EntityExistsError, EntityMissingError, ReferenceMissingError
from lakesweep.store import Attempt, Change, Realm
from lakesweep.store.reserved_names import (
    CATALOGS,
    GRANTS,
    PRINCIPAL_ROLES,
    ROOT,
    catalog_content,
    catalog_grants,
    catalog_roles,
)

#: The type of the task that ends a catalog.
END_CATALOG = "end-catalog"
_SECOND = 1_000_000
_DEFAULT_KEEP = timedelta(seconds=KEEP_DROPPED_SECONDS)


class Catalogs(EntityContainer[CatalogsCommit]):
    """The catalogs of a realm, and everything else in it."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(realm, CATALOGS, CatalogsCommit)

    @cached_property
    def principals(self) -> Principals:
        """The principals of the realm."""
        return Principals(self.realm)

    @cached_property
    def principal_roles(self) -> EntityContainer[PrincipalRolesCommit]:
        """The roles of principals."""
        return EntityContainer(self.realm, PRINCIPAL_ROLES, PrincipalRolesCommit)

    @cached_property
    def grants(self) -> Grants:
        """Grants on the realm itself, and the members of principal roles."""
        return Grants(self.realm, GRANTS)

    @cached_property
    def mappings(self) -> PolicyMappings:
        """Which policies are attached to what."""
        return PolicyMappings(self.realm)

    @cached_property
    def tasks(self) -> Tasks:
        """Scheduled tasks."""
        return Tasks(self.realm)

    def create(
        self,
        name: str,
        *,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        keep_dropped: timedelta = _DEFAULT_KEEP,
        allow_overlaps: bool = False,
        author: str = "",
    ) -> Catalog:
        """A new catalog, empty and active. EntityExistsError if the name is taken.

        Its references are created first, so that no reader finds the catalog without them. Those of
        a creation that failed point to nothing, and maintenance deletes them.
        """
        check_name(name)
        if location is not None:
            check_address(location)
        if self.snapshot().entries.child(NO_PARENT, name) is not None:
            raise EntityExistsError(f"there is a catalog {name} already")
        definition = CatalogDefinition(
            id=self.realm.new_id(), name=name, location=location, properties=dict(properties or {})
        )
        catalog = self._catalog(definition)
        catalog.begin(keep_dropped, allow_overlaps=allow_overlaps)
        return self._add(definition, author)

    def open(self, name: str) -> Catalog:
        """An active catalog. EntityMissingError if there is none of that name."""
        entity = self.snapshot().find((name,))
        if entity is None:
            raise EntityMissingError(
                f"there is no catalog {name}", hint="lakesweep catalog list shows all"
            )
        return self._catalog(entity)

    def open_id(self, number: int, *, fresh: bool = False) -> Catalog:
        """A catalog by its id, active or not. EntityMissingError if there is none."""
        return self._catalog(self.snapshot(fresh=fresh).by_id(number))

    def every(self, *, fresh: bool = False) -> Iterator[Catalog]:
        """All catalogs, by name, also those that are being purged."""
        view = self.snapshot(fresh=fresh)
        yield from self._ranked(view, OTHERS)
        yield from self._ranked(view, LEAVING)

    def leaving(self) -> Iterator[Catalog]:
        """The catalogs that are being purged."""
        return self._ranked(self.snapshot(fresh=True), LEAVING)

    def update(
        self,
        catalog: Catalog,
        *,
        location: str | None = None,
        properties: Mapping[str, str],
        version: int | None = None,
        author: str = "",
    ) -> MutationStatus:
        """Change the properties of a catalog, and its location if one is given.

        EntityChangedError if it was changed since it was opened, or does not have the expected
        version.
        """
        if location is not None:
            check_address(location)
        before = catalog.definition
        after = msgspec.structs.replace(
            before, location=location or before.location, properties=dict(properties)
        )
        expected = before.version if version is None else version
        outcome = self.apply([Update((before.name,), after, expected)], author=author)
        return outcome.results[0].status

    def drop(self, name: str, *, author: str = "") -> Catalog:
        """Drop an empty catalog. RefusedError if it is not empty."""
        return self._leave(name, author, if_empty=True)

    def purge(self, name: str, *, author: str = "") -> Catalog:
        """Drop a catalog with its content. This cannot be undone."""
        return self._leave(name, author, if_empty=False)

    def ends_at(self, catalog: Catalog) -> int:
        """The moment from which a catalog that is being purged no longer retains any file."""
        since = catalog.definition.purging_since or 0
        try:
            view = catalog.snapshot(fresh=True)
        except ReferenceMissingError:
            return since  # its removal had begun
        keep = view.head.keep_dropped_seconds * _SECOND
        if not view.entries.is_empty(NO_PARENT):
            return since + keep
        dropped = [moment for moment, _ in view.dropped(self.now())]
        return max([since, *(moment + keep for moment in dropped)])

    def end(self, catalog: Catalog) -> bool:
        """Remove a purged catalog if its retention has ended; returns whether it is removed.

        Its references are deleted first and its name last: after a crash in between, the name still
        leads here, and the rest is done then. What they referenced is left to maintenance.
        """
        if catalog.is_active:
            return False
        if self.ends_at(catalog) > self.now():
            return False
        number = catalog.id
        for reference in (catalog_content(number), catalog_roles(number), catalog_grants(number)):
            with suppress(ReferenceMissingError):
                self.realm.references.delete(self.realm.references.fetch_for_update(reference))
        self._alter(number, lambda _: None, f"catalog {catalog.name} is gone")
        return True

    def end_due(self, holder: str, *, lease: timedelta = timedelta(minutes=10)) -> list[str]:
        """Remove every purged catalog whose retention has ended; returns their names."""
        self._schedule_forgotten()
        gone = []
        for task in self.tasks.all():
            if task.type != END_CATALOG:
                continue
            claimed = self.tasks.claim(task, holder, lease)
            if claimed is not None and (name := self._end_by(claimed)) is not None:
                gone.append(name)
        return gone

    def root(self) -> RootEntity:
        """The root entity of the realm."""
        head = self.realm.head(ROOT, RootCommit)
        if head is None:
            return RootEntity(name=self.realm.name)
        stored = self.realm.objects.fetch(head.value.root, RootEntity)
        if stored is None:
            raise EntityMissingError(f"the root of realm {self.realm.name} is missing")
        return stored.value

    def set_root(self, properties: Mapping[str, str], *, author: str = "") -> RootEntity:
        """Replace the properties of the realm's root."""
        now = self.now()

        def change(attempt: Attempt[RootCommit]) -> RootCommit | None:
            old = attempt.fetch(attempt.head.root, RootEntity) if attempt.head else None
            if old is not None and old.properties == dict(properties):
                return None
            before = old or RootEntity(name=self.realm.name, created_at=now)
            new = msgspec.structs.replace(
                before, properties=dict(properties), version=before.version + 1, updated_at=now
            )
            return RootCommit(root=attempt.write(new))

        self.realm.commit(ROOT, change, RootCommit, message="root", author=author)
        return self.root()

    def _add(self, definition: CatalogDefinition, author: str) -> Catalog:
        """Add a catalog whose id and references exist already."""

        def change(attempt: Attempt[CatalogsCommit]) -> CatalogsCommit:
            head = attempt.head or CatalogsCommit()
            batch = EntityBatch(attempt, head, self.now(), lambda: definition.id)
            (result,) = batch.run([Create((definition.name,), definition)])
            if result.error:
                raise result.error
            return msgspec.structs.replace(head, **batch.indexes())

        self._commit(change, f"create catalog {definition.name}", author)
        return self.open_id(definition.id)

    def _alter(
        self,
        number: int,
        make: Callable[[CatalogDefinition], CatalogDefinition | None],
        message: str,
        author: str = "",
    ) -> None:
        """Change or remove the catalog with this id, whatever has its name now."""

        def change(attempt: Attempt[CatalogsCommit]) -> CatalogsCommit | None:
            head = attempt.head or CatalogsCommit()
            batch = EntityBatch(attempt, head, self.now(), self.realm.new_id)
            found = batch.entries.by_id(number)
            before = batch.load(found) if found else None
            if found is None or not isinstance(before, CatalogDefinition):
                return None
            after = make(before)
            if after == before:
                return None
            if after is None:
                batch.remove(found, (before.name,))
            else:
                batch.put(found, batch.next_version(after), before)
                attempt.record(Change("update", path_key((before.name,))))
            return msgspec.structs.replace(head, **batch.indexes())

        self._commit(change, message, author)

    def _leave(self, name: str, author: str, *, if_empty: bool) -> Catalog:
        """Close the content, then purge the catalog; repeating it resumes an interrupted call.

        Nothing can be created between the check for emptiness and the end: both are one commit to
        the content.
        """
        catalog = self.open(name)
        closed = catalog.close(if_empty=if_empty)
        now = dropping_at(closed, self.now())

        def leave(definition: CatalogDefinition) -> CatalogDefinition:
            if definition.status is CatalogStatus.PURGING:
                return definition
            return msgspec.structs.replace(
                definition, status=CatalogStatus.PURGING, purging_since=now
            )

        self._alter(catalog.id, leave, f"purge catalog {name}", author)
        gone = self.open_id(catalog.id)
        self.tasks.schedule(END_CATALOG, gone.id, self.ends_at(gone))
        return gone

    def _schedule_forgotten(self) -> None:
        """Schedule the removal of catalogs whose purge was interrupted before it did so."""
        scheduled = {task.target for task in self.tasks.all() if task.type == END_CATALOG}
        for catalog in self.leaving():
            if catalog.id not in scheduled:
                self.tasks.schedule(END_CATALOG, catalog.id, self.ends_at(catalog))

    def _end_by(self, task: ScheduledTask) -> str | None:
        try:
            catalog = self._catalog(self.snapshot(fresh=True).by_id(task.target))
        except EntityMissingError:
            self.tasks.finish(task)
            return None
        if not self.end(catalog):
            return None
        self.tasks.finish(task)
        return catalog.name

    def _ranked(self, view: ContainerSnapshot[CatalogsCommit], rank: int) -> Iterator[Catalog]:
        found = list(view.entries.children(NO_PARENT, rank))
        return map(self._catalog, view.load(found))

    def _catalog(self, entity: Entity | None) -> Catalog:
        assert isinstance(entity, CatalogDefinition)
        return Catalog(self.realm, entity)
