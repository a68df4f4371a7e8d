"""One catalog as its clients see it: its names, and its tables and views with their metadata.

Every question reads what is stored now: a client that has just committed through another server
must find its commit here.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.commits import REQUESTS, AnsweredRequest, BatchOutcome, Mutation, Remember
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import Entity, EntityType, Table, View, check_name
from lakesweep.catalog.warehouse.group_commit import GroupCommits
from lakesweep.catalog.warehouse.metadata_files import MetadataFiles, StoredMetadata
from lakesweep.catalog.warehouse.problems import (
    Path,
    bad_request,
    name_taken,
    no_entity,
    no_namespace,
)
from lakesweep.clock import Clock, micros
from lakesweep.errors import UsageError
from lakesweep.store.commits.fair_lock import FairLocks

_TURN_SECONDS = 30.0
MOST_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class LoadedEntity:
    """A table or view: what the catalog has of it, and its metadata file.

    Without an `entity` it is only staged: no file holds its metadata yet.
    """

    entity: Table | View | None
    file: StoredMetadata


@dataclass(frozen=True, slots=True)
class NamePage:
    """Some names of a listing; `token` asks for the next ones."""

    names: tuple[Path, ...]
    token: str | None = None


@dataclass(frozen=True, slots=True)
class CommitTurns:
    """What the commits of a process share: who commits together, and whose turn a table has."""

    groups: GroupCommits = field(default_factory=GroupCommits)
    tables: FairLocks = field(default_factory=FairLocks)


@dataclass(frozen=True, slots=True)
class IcebergWarehouse:
    """One catalog, and the metadata files of its tables and views. `author` is who changes it.

    `request` is what is being carried out, if its client may send it again.
    """

    catalog: Catalog
    files: MetadataFiles
    clock: Clock
    author: str = ""
    turns: CommitTurns = field(default_factory=CommitTurns)
    request: Remember | None = None

    def apply(self, mutations: Sequence[Mutation], answer: bytes = b"") -> BatchOutcome:
        """Change the catalog, all or nothing; raises the first failure.

        The request is remembered by the same commit, so that it is carried out once. A short
        `answer` is kept with it, where it could not be given again.
        """
        if self.request is not None:
            # Last: what else fails says more.
            noted = Remember(self.request.key, self.request.asked, answer)
            mutations = [*mutations, noted]
        return self.turns.groups.apply(self.catalog, mutations, author=self.author)

    def answered(self, request: Remember) -> AnsweredRequest | None:
        """The same request as it was carried out before, if it was."""
        head = self.look().head
        return self.catalog.realm.index(head.requests, REQUESTS).get(request.key)

    @contextmanager
    def turn(self, paths: Collection[Path]) -> Iterator[None]:
        """Hold tables or views against others of this process, who wait in their order."""
        with ExitStack() as held:
            for path in sorted(set(paths)):
                held.enter_context(self.turns.tables.take((self.catalog.id, path), _TURN_SECONDS))
            yield

    def look(self) -> ContentSnapshot:
        """The content as it is now."""
        return self.catalog.snapshot(fresh=True)

    def now_ms(self) -> int:
        """The present, in milliseconds since 1970."""
        return micros(self.clock.now()) // 1000

    def find(self, path: Path, kind: EntityType, view: ContentSnapshot | None = None) -> Entity:
        """A table or view. WarehouseError if there is none."""
        found = (view or self.look()).find(checked(path), kind) if len(path) > 1 else None
        if found is None:
            raise no_entity(kind, path)
        return found

    def load(self, path: Path, kind: EntityType) -> LoadedEntity:
        """A table or view with its metadata."""
        entity = self.find(path, kind)
        assert isinstance(entity, Table | View)
        return LoadedEntity(entity, self.files.read(entity.metadata_location))

    def check_namespace(self, path: Path, view: ContentSnapshot | None = None) -> None:
        """WarehouseError unless a namespace exists."""
        found = (view or self.look()).entries.find(checked(path)) if path else None
        if found is None or found.named.kind is not EntityType.NAMESPACE:
            raise no_namespace(path)

    def check_free(self, path: Path, kind: EntityType, view: ContentSnapshot) -> None:
        """WarehouseError unless a table or view can be created under a name."""
        self.check_namespace(path[:-1], view)
        found = view.entries.find(checked(path))
        if found is not None:
            raise name_taken(kind, found.named.kind, path)

    def names(
        self,
        within: Path,
        kinds: Collection[EntityType],
        token: str | None = None,
        size: int | None = None,
    ) -> NamePage:
        """The names in a namespace; all of them unless a token or a size is given."""
        view = self.look()
        if within:
            self.check_namespace(within, view)
        start = None if not token else _position(token)
        if token is None and size is None:
            return NamePage(tuple(self._all(view, within, kinds)))
        most = min(size or MOST_NAMES, MOST_NAMES)
        found, after = view.page(within, kinds, size=most, start=start)
        following = None if after is None else _token(after)
        return NamePage(tuple((*within, each.name) for each in found), following)

    def _all(
        self, view: ContentSnapshot, within: Path, kinds: Collection[EntityType]
    ) -> Iterator[Path]:
        is_namespaces = set(kinds) == {EntityType.NAMESPACE}
        for each in view.children(within or None, namespaces=is_namespaces):
            if each.named.kind in kinds:
                yield (*within, each.name)


def checked(path: Path) -> Path:
    """A path whose parts can be names; WarehouseError if one cannot."""
    if not path:
        raise bad_request("a name has one part at least")
    try:
        for part in path:
            check_name(part)
    except UsageError as error:
        raise bad_request(f"Invalid name: {error.message}") from None
    return path


def _token(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def _position(token: str) -> bytes:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise bad_request("this is not a page token of this listing") from None
