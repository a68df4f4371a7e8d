"""A table and its branches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import DamagedError, FormatError, MissingError, NotFoundError
from lakesweep.paimon.model.layout import MAIN, Layout
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import make_partitioning
from lakesweep.paimon.model.schemas import PaimonSchema, parse_schema
from lakesweep.paimon.model.snapshots import (
    Consumer,
    PaimonSnapshot,
    PaimonTag,
    parse_consumer,
    parse_snapshot,
    parse_tag,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import Address, StoreKind, parse
from lakesweep.storage.listing.folder_level import (
    FolderLevel,
    find_broken_links,
    find_links,
    list_level,
)
from lakesweep.storage.object_store import ObjectInfo

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

Item = TypeVar("Item")
Result = TypeVar("Result")

HINTS = ("EARLIEST", "LATEST")
_BRANCH = "branch-"
#: In the folder of tags, and none of them.
_SUCCESS_FILES = "tag-success-file"
_LOCAL = frozenset({StoreKind.FILE, StoreKind.MEMORY})
_REMOTE_WORKERS = 16
#: Proof that a table existed, by folder: how names in it begin.
_TRACES: Mapping[str, tuple[str, ...]] = {
    "snapshot": ("snapshot-", *HINTS),
    "tag": ("tag-",),
    "changelog": ("changelog-",),
    "branch": (_BRANCH,),
    "manifest": ("manifest-list-",),
}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_CONSUMER_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class NumberedFiles:
    """The files `<prefix><number>` of a folder, in the order of the numbers; and other names."""

    files: Mapping[int, ObjectInfo]
    others: Mapping[str, ObjectInfo]


class WorkPool(Protocol):
    """Where work on many files is done, other than on threads of this process."""

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of picklable work in the order of the items; the first error is raised."""
        ...


class PaimonTable:
    """A table at an address, as it was when it was opened: of the main branch's newest schema."""

    def __init__(
        self,
        stores: Stores,
        address: Address,
        clock: Clock | None = None,
        *,
        threads: int | None = None,
        pool: WorkPool | None = None,
    ) -> None:
        self.stores = stores
        self.address = address.child(address.folder)
        self.clock = clock or SystemClock()
        #: How many threads read and delete; None is as many as suit the store.
        self.threads = threads
        self._pool = pool

    def __getstate__(self) -> dict[str, Any]:
        # A pool belongs to the driver. Tasks that get the table read on their own threads.
        return {**self.__dict__, "_pool": None}

    @classmethod
    def open(
        cls,
        stores: Stores,
        address: Address | str,
        clock: Clock | None = None,
        *,
        threads: int | None = None,
        pool: WorkPool | None = None,
    ) -> Self:
        """The table at an address; NotFoundError if there is none.

        `threads` read and delete; manifests are read on the `pool`, if there is one.
        """
        place = parse(address) if isinstance(address, str) else address
        # The user named this folder: it may be a link, but nothing is changed through links in it.
        table = cls(stores.within(place.path), place, clock, threads=threads, pool=pool)
        if not table.main.schema_files().files:
            table._refuse()
        return table

    def _refuse(self) -> NoReturn:
        for folder, names in _TRACES.items():
            level = self.list(folder)
            if any(name.startswith(names) for name in (*level.files, *level.folders)):
                path = f"{self.address.path}schema/"
                raise DamagedError(path, f"holds no schema, although the table has a {folder}")
        raise NotFoundError(
            f"{self.address.path} is no Paimon table: it has no schema",
            hint="name the folder that holds schema/ and snapshot/",
        )

    def __repr__(self) -> str:
        return f"PaimonTable({self.address.path!r})"

    @property
    def read_workers(self) -> int:
        """How many threads should read metadata files at once.

        Local files are read faster than they are decoded, and threads that decode small files only
        contend for the interpreter's lock: one thread expires snapshots twice as fast as four.
        """
        if self.threads is not None:
            return self.threads
        return 1 if self.address.kind in _LOCAL else _REMOTE_WORKERS

    @property
    def walk_workers(self) -> int:
        """How many threads should read all metadata of a table."""
        return self.threads or _REMOTE_WORKERS

    def map_manifests(
        self, work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
    ) -> Iterator[Result]:
        """Do work on manifests, results in order: on the pool, or on threads.

        For a pool, work and results must be picklable.
        """
        if self._pool is not None:
            return self._pool.map(work, items)
        return map_ordered(work, items, workers=self.threads or workers or self.read_workers)

    @cached_property
    def main(self) -> PaimonBranch:
        """The main branch."""
        return PaimonBranch(self, MAIN)

    @property
    def latest_schema(self) -> PaimonSchema:
        """The newest schema of the main branch."""
        return self.main.latest_schema

    @property
    def options(self) -> Options:
        """The options of the newest schema of the main branch."""
        return self.latest_schema.options

    @cached_property
    def external_roots(self) -> tuple[str, ...]:
        """The external roots that any schema of any branch names, each once, ending in `/`.

        Files stay in a root that the table no longer writes to.
        """
        schemas = (schema for branch in self.branches() for schema in branch.schemas())
        roots = (root for schema in schemas for root in schema.options.external_roots)
        return tuple(dict.fromkeys(roots))

    @property
    def layout(self) -> Layout:
        """Where the main branch keeps its files."""
        return self.main.layout

    def schema(self, number: int) -> PaimonSchema:
        """A schema of the main branch."""
        return self.main.schema(number)

    def branch(self, name: str) -> PaimonBranch:
        """A branch by its name, whether or not it exists."""
        return self.main if name == MAIN else PaimonBranch(self, name)

    def find_branch(self, name: str) -> PaimonBranch:
        """A branch that exists; NotFoundError for any other."""
        for branch in self.branches():
            if branch.name == name:
                return branch
        names = ", ".join(branch.name for branch in self.branches())
        raise NotFoundError(
            f"{self.address.path} has no branch {name}", hint=f"its branches are {names}"
        )

    def branches(self) -> list[PaimonBranch]:
        """The main branch, then all others by name."""
        found = self.list("branch").folders
        names = sorted(name.removeprefix(_BRANCH) for name in found if name.startswith(_BRANCH))
        if MAIN in names:
            path = f"{self.address.path}branch/{_BRANCH}{MAIN}/"
            raise DamagedError(path, f"is in the place of a branch, and {MAIN} is the table itself")
        return [self.main, *(PaimonBranch(self, name) for name in names)]

    def list(self, folder: str) -> FolderLevel:
        """What lies directly in a folder of the table, links to folders among the folders.

        DamagedError if a link is broken: what it led to may still need files.
        """
        address = self._folder(folder)
        level = list_level(self.stores, address)
        if address.kind is not StoreKind.FILE:
            return level
        for path in find_broken_links(address.folder):
            raise DamagedError(path, "is a broken link")
        return replace(level, folders=(*level.folders, *find_links(address.folder)))

    def _folder(self, name: str) -> Address:
        return self.address.child(f"{self.address.folder}{name}/")

    def read(self, path: str) -> bytes:
        """The bytes of a file; MissingError if it does not exist."""
        address = parse(path)
        return self.stores.open(address).read(address.key)

    def exists(self, path: str) -> bool:
        """Whether a file is there."""
        address = parse(path)
        try:
            self.stores.open(address).head(address.key)
        except MissingError:
            return False
        return True


class PaimonBranch:
    """One line of a table's history. Everything is read when it is asked for, schemas once."""

    def __init__(self, table: PaimonTable, name: str) -> None:
        self.table = table
        self.name = name

    def __repr__(self) -> str:
        return f"Branch({self.table.address.path!r}, {self.name!r})"

    @property
    def folder(self) -> str:
        """The folder of the branch below the table, empty or with a `/` at its end."""
        return "" if self.name == MAIN else f"branch/{_BRANCH}{self.name}/"

    @cached_property
    def layout(self) -> Layout:
        """Where the branch keeps its files."""
        newest = self.latest_schema
        partitioning = make_partitioning(newest.partition_fields, newest.options)
        return Layout(
            self.table.address.path,
            partitioning,
            newest.options,
            self.name,
            newest.is_hashed,
            self.table.external_roots,
        )

    @cached_property
    def latest_schema(self) -> PaimonSchema:
        """The newest schema; MissingError if the branch has none."""
        files = self.schema_files().files
        if not files:
            raise MissingError(f"{self._path('schema')}/", "holds no schema")
        return self.schema(max(files))

    def schema(self, number: int) -> PaimonSchema:
        """A schema by its number."""
        path = self._path(f"schema/schema-{number}")
        schema = parse_schema(path, self.table.read(path))
        _check_id(path, schema.id, number)
        return schema

    def schemas(self) -> Iterator[PaimonSchema]:
        """All schemas, the oldest first."""
        numbers = self.schema_files().files
        return map_ordered(self.schema, numbers, workers=self.table.read_workers)

    def schema_files(self) -> NumberedFiles:
        return self._numbered("schema", "schema-")

    def snapshot_files(self) -> NumberedFiles:
        return self._numbered("snapshot", "snapshot-")

    def changelog_files(self) -> NumberedFiles:
        return self._numbered("changelog", "changelog-")

    def snapshot_ids(self) -> list[int]:
        """The numbers of all snapshots that are there, ascending."""
        return list(self.snapshot_files().files)

    def changelog_ids(self) -> list[int]:
        """The numbers of all changelogs that outlive their snapshots, ascending."""
        return list(self.changelog_files().files)

    def snapshot(self, number: int) -> PaimonSnapshot:
        """A snapshot by its number; MissingError if it does not exist."""
        return self._read_snapshot(f"snapshot/snapshot-{number}", number)

    def changelog(self, number: int) -> PaimonSnapshot:
        """A changelog by its number; MissingError if it does not exist."""
        return self._read_snapshot(f"changelog/changelog-{number}", number)

    def latest_id(self) -> int | None:
        """The newest snapshot: as the hint says if nothing newer is there, else by listing."""
        hint = self.hint("snapshot", "LATEST")
        if hint is not None and self.has_snapshot(hint) and not self.has_snapshot(hint + 1):
            return hint
        return max(self.snapshot_ids(), default=None)

    def earliest_id(self) -> int | None:
        """The oldest snapshot: as the hint says if it is there, else by listing."""
        hint = self.hint("snapshot", "EARLIEST")
        if hint is not None and self.has_snapshot(hint):
            return hint
        return min(self.snapshot_ids(), default=None)

    def hint(self, folder: str, name: str) -> int | None:
        """The number in a hint of `snapshot` or `changelog`; None if there is none."""
        try:
            text = self.table.read(self._path(f"{folder}/{name}")).decode(errors="replace").strip()
        except MissingError:
            return None
        return int(text) if _NUMBER.fullmatch(text) else None

    def tag_files(self) -> Mapping[str, ObjectInfo]:
        """The files of tags, by the names of the tags."""
        return self._named("tag", "tag-")

    def tag(self, name: str, info: ObjectInfo | None = None) -> PaimonTag:
        """A tag by its name; `info` is what a listing says of its file."""
        path = self._path(f"tag/tag-{name}")
        return parse_tag(path, self.table.read(path), name, info.modified if info else None)

    def tags(self) -> list[PaimonTag]:
        """All tags, in the order of their snapshots and names."""
        found = [self.tag(name, info) for name, info in self.tag_files().items()]
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def consumer_files(self) -> Mapping[str, ObjectInfo]:
        """The files of consumers, by the consumers' ids."""
        return self._named("consumer", "consumer-")

    def consumers(self) -> list[Consumer]:
        """All consumers, except those that are deleted meanwhile."""
        found = (self._consumer(name, info) for name, info in self.consumer_files().items())
        return [consumer for consumer in found if consumer is not None]

    def _consumer(self, name: str, info: ObjectInfo, attempts: int = 10) -> Consumer | None:
        path = self._path(f"consumer/consumer-{name}")
        try:
            return parse_consumer(path, self.table.read(path), name, info.modified)
        except MissingError:
            return None
        except FormatError:
            # Consumers are rewritten in place, so a partial file is complete a moment later.
            if attempts == 1:
                raise
        self.table.clock.sleep(_CONSUMER_PAUSE_SECONDS)
        return self._consumer(name, info, attempts - 1)

    def _read_snapshot(self, name: str, number: int) -> PaimonSnapshot:
        path = self._path(name)
        snapshot = parse_snapshot(path, self.table.read(path))
        _check_id(path, snapshot.id, number)
        return snapshot

    def has_snapshot(self, number: int) -> bool:
        """Whether there is a snapshot of this number."""
        return self.table.exists(self._path(f"snapshot/snapshot-{number}"))

    def _numbered(self, folder: str, prefix: str) -> NumberedFiles:
        numbers: dict[int, ObjectInfo] = {}
        others: dict[str, ObjectInfo] = {}
        for name, info in self._files(folder):
            if name.startswith(prefix) and _NUMBER.fullmatch(name, len(prefix)):
                numbers[int(name[len(prefix) :])] = info
            else:
                others[name] = info
        return NumberedFiles(dict(sorted(numbers.items())), others)

    def _named(self, folder: str, prefix: str) -> Mapping[str, ObjectInfo]:
        found = (pair for pair in self._deep_files(folder) if pair[0].startswith(prefix))
        return {name.removeprefix(prefix): info for name, info in found}

    def _deep_files(self, folder: str) -> Iterator[tuple[str, ObjectInfo]]:
        """Files with those of folders in it: a `/` in the name of a tag makes a folder of it.

        The mark that a bucket may have in the place of a folder has no name in it.
        """
        level = self.table.list(self.folder + folder)
        yield from sorted((name, info) for name, info in level.files.items() if name)
        for inner in sorted(level.folders):
            if inner != _SUCCESS_FILES:
                for name, info in self._deep_files(f"{folder}/{inner}"):
                    yield f"{inner}/{name}", info

    def _files(self, folder: str) -> Iterator[tuple[str, ObjectInfo]]:
        yield from sorted(self.table.list(self.folder + folder).files.items())

    def _path(self, name: str) -> str:
        return f"{self.table.address.path}{self.folder}{name}"


def _check_id(path: str, found: int, expected: int) -> None:
    if found != expected:
        raise DamagedError(path, f"says that it is number {found}")
