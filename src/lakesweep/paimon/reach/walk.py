"""Everything a table references, as a stream of Arrow batches, each file once.

Children come before parents: files, their manifest, the lists, and last the snapshots, tags,
changelogs, schemas and hints. Each list and manifest is read once.

A referenced file need not exist: manifests still name files that they delete, and a changelog
that outlives its snapshot still names lists that only the snapshot needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.hashing import HashSet, hash128
from lakesweep.marks.unreadable import READ_ERRORS, Tolerance, problem_of
from lakesweep.paimon.manifests.named_files import (
    ManifestFile,
    NamedFiles,
    Sidecar,
    files_of,
    find_sidecars,
    index_files_of,
    manifests_of,
    read_entries,
    read_packs,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.owners import (
    FileOwner,
    ListRole,
    ManifestList,
    OwnerFile,
    RequiredManifests,
    list_branch,
    read_owner,
)
from lakesweep.paimon.reach.root_files import root_files
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.file_batches import batch_of, coalesce_batches, file_batch
from lakesweep.storage.object_store import ObjectInfo

Result = TypeVar("Result")

#: How many entries are read ahead, unless they are all of one manifest: memory stays flat.
_ENTRIES_AHEAD = 100_000


def reached_files(
    table: PaimonTable, tolerance: Tolerance, *, workers: int | None = None
) -> Iterator[pa.RecordBatch]:
    """All files that a table reaches, as FILE_SCHEMA, children before parents."""
    walk = PaimonWalk(table, tolerance, workers or table.walk_workers)
    return unique_files(coalesce_batches(walk.files()))


class _List(NamedTuple):
    """A manifest list, and the layout that the paths of its files are made by."""

    layout: Layout
    file: ManifestList


class _Manifest(NamedTuple):
    """A manifest of a list; `needed` if an owner cannot be read without it."""

    layout: Layout
    file: ManifestFile
    kind: PaimonKind
    needed: bool

    @property
    def key(self) -> Hashable:
        """What identifies it; the layout decides where its files are."""
        return self.layout.place, self.file.name


class _Contents(NamedTuple):
    """What a manifest names, and the sidecars among it that name packs."""

    files: list[pa.RecordBatch]
    sidecars: list[Sidecar]


@dataclass
class PaimonWalk:
    """One pass over a table. Lists and manifests are read on threads, in order.

    Owners and manifests that are known from an earlier pass are left out; manifests are added to
    those known when they were read whole. What manifests name comes as `named` makes it of their
    entries: with paths, or by names alone.
    """

    table: PaimonTable
    tolerance: Tolerance
    workers: int = 16
    known_owners: AbstractSet[ObjectInfo] = frozenset()
    known_manifests: set[Hashable] = field(default_factory=set)
    named: Callable[[Layout, pa.RecordBatch], NamedFiles] = files_of
    owners: list[FileOwner] = field(default_factory=list)
    layouts: dict[str, Layout] = field(default_factory=dict)
    needs: RequiredManifests = field(init=False)
    _sidecars: HashSet = field(default_factory=HashSet)

    def files(self) -> Iterator[pa.RecordBatch]:
        """All files; some of them more than once."""
        files = (file for branch in self.table.branches() for file in self._list(branch))
        new = (file for file in files if file.info not in self.known_owners)
        found = map_ordered(self._read_owner, new, workers=self.workers)
        self.owners = [owner for owner in found if owner is not None]
        self.needs = RequiredManifests(self.table, self.owners)
        yield from self._below()
        yield from self._indexes()
        names = {owner.snapshot.statistics for owner in self.owners}
        paths = (self.table.layout.statistics(name) for name in sorted(filter(None, names)))
        yield file_batch(PaimonKind.STATISTICS, ((path, None) for path in paths))
        yield from root_files(self.table, self.owners)

    def _below(self) -> Iterator[pa.RecordBatch]:
        """What manifests name, each manifest behind its files, then the lists."""
        lists = list(self._lists())
        manifests = self._manifests(lists)
        read = map_ordered(
            self._read, manifests, workers=self.workers, weigh=_weight, most=_ENTRIES_AHEAD
        )
        for manifest, contents in read:
            yield from contents.files
            yield from self._packs(contents.sidecars)
            yield self._meta(PaimonKind.EXTRA, ((name, None) for name in manifest.file.extra_files))
            yield self._meta(PaimonKind.MANIFEST, [(manifest.file.name, manifest.file.size_bytes)])
        yield self._meta(
            PaimonKind.MANIFEST_LIST, ((each.file.name, each.file.size_bytes) for each in lists)
        )

    def _indexes(self) -> Iterator[pa.RecordBatch]:
        """Index manifests, each behind the files that it names."""
        for name, paths, sizes in map_ordered(
            self._read_indexes, self._index_manifests(), workers=self.workers
        ):
            yield batch_of(PaimonKind.INDEX, paths, sizes)
            yield self._meta(PaimonKind.INDEX_MANIFEST, [(name, None)])

    def _lists(self) -> Iterable[_List]:
        """Each list once, those that an owner needs first."""
        found: dict[Hashable, _List] = {}
        lists = ((owner, each) for owner in self.owners for each in owner.lists())
        for owner, each in sorted(lists, key=lambda pair: not pair[1].needed):
            layout = self.layouts[owner.branch.name]
            found.setdefault((layout.place, each.name), _List(layout, each))
        return found.values()

    def _manifests(self, lists: Iterable[_List]) -> Iterator[_Manifest]:
        """Each manifest once."""
        seen = set(self.known_manifests)
        for each, manifests in map_ordered(self._read_list, lists, workers=self.workers):
            kind = PaimonKind.CHANGELOG if each.file.role is ListRole.CHANGELOG else PaimonKind.DATA
            for file in manifests:
                manifest = _Manifest(each.layout, file, kind, each.file.needed)
                if manifest.key not in seen:
                    seen.add(manifest.key)
                    yield manifest

    def _index_manifests(self) -> Iterable[tuple[Layout, FileOwner]]:
        """Each once, with the owner that needs it most."""
        found: dict[Hashable, tuple[Layout, FileOwner]] = {}
        for owner in sorted(self.owners, key=lambda it: (not it.needs_state, -it.least_indexes)):
            name, layout = owner.snapshot.index_manifest, self.layouts[owner.branch.name]
            if name is not None:
                found.setdefault((layout.place, name), (layout, owner))
        return found.values()

    def _list(self, branch: PaimonBranch) -> list[OwnerFile]:
        try:
            return list_branch(branch)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return []

    def _read_owner(self, file: OwnerFile) -> FileOwner | None:
        try:
            # Without the layout of its branch nothing is known of what an owner names.
            self.layouts[file.branch.name] = file.branch.layout
            return read_owner(file)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return None

    def _read_list(self, each: _List) -> tuple[_List, tuple[ManifestFile, ...]]:
        file = each.file
        read = self._attempt(
            file.name,
            lambda: manifests_of(self.table, file.name, file.size_bytes, file.least),
            needed=file.needed,
        )
        return each, read or ()

    def _read(self, manifest: _Manifest) -> tuple[_Manifest, _Contents]:
        read = self._attempt(
            manifest.file.name, lambda: self._contents(manifest), needed=manifest.needed
        )
        if read is not None:
            self.known_manifests.add(manifest.key)
        return manifest, read or _Contents([], [])

    def _contents(self, manifest: _Manifest) -> _Contents:
        # All or nothing: what a damaged manifest names cannot be trusted.
        layout = manifest.layout
        contents = _Contents([], [])
        for batch in read_entries(self.table, manifest.file, embedded_indexes=False):
            named = self.named(layout, batch)
            own = named.paths[: batch.num_rows]
            extra = named.paths[batch.num_rows :]
            contents.files.append(batch_of(manifest.kind, own, batch["size_bytes"]))
            contents.files.append(batch_of(PaimonKind.EXTRA, extra))
            contents.sidecars.extend(find_sidecars(extra, own, named.rows[batch.num_rows :]))
        return contents

    def _read_indexes(self, which: tuple[Layout, FileOwner]) -> tuple[str, pa.Array, pa.Array]:
        layout, owner = which
        name, least = owner.snapshot.index_manifest or "", owner.least_indexes
        read = self._attempt(
            name,
            lambda: index_files_of(self.table, layout, name, least),
            needed=owner.needs_state,
        )
        return name, *(read or (pa.array([], pa.string()), pa.array([], pa.int64())))

    def _packs(self, sidecars: Iterable[Sidecar]) -> Iterator[pa.RecordBatch]:
        """The packs that sidecars name, each sidecar read once."""
        found = list(sidecars)
        if not found:
            return
        new = self._sidecars.add(hash128(identities(pa.array([each.path for each in found]))))
        unread = (each for each, is_new in zip(found, new, strict=True) if is_new)
        for paths in map_ordered(self._read_packs, unread, workers=self.workers):
            yield file_batch(PaimonKind.EXTRA, ((path, None) for path in paths))

    def _read_packs(self, sidecar: Sidecar) -> list[str]:
        try:
            return read_packs(self.table, sidecar)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return []

    def _meta(self, kind: PaimonKind, files: Iterable[tuple[str, int | None]]) -> pa.RecordBatch:
        """Files of the folder of manifests."""
        layout = self.table.layout
        return file_batch(kind, ((layout.manifest(name), size) for name, size in files))

    def _attempt(self, name: str, read: Callable[[], Result], *, needed: bool) -> Result | None:
        try:
            return read()
        except MissingError as error:
            if needed and self.needs.is_needed(name):
                self.tolerance.meet(problem_of(error))
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
        return None


def _weight(manifest: _Manifest) -> int:
    return manifest.file.added + manifest.file.deleted
