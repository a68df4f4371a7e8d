"""Everything that a table reaches, as a stream of Arrow batches, every file once.

Files come children before parents: what a manifest names before the manifest, manifests before
their lists, and last what stands at the roots: snapshots, tags, changelogs, schemas, hints. A list
or a manifest is read once, whoever names it.

What is named need not be there: manifests still name files that they deleted, and a changelog that
outlives its snapshot still names lists that only the snapshot needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.hashing import HashSet, hash128
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.layout import Layout
from lakesweep.paimon.naming import (
    ManifestFile,
    NamedFiles,
    files_of,
    index_files_of,
    manifests_of,
    read_entries,
)
from lakesweep.paimon.needs import Needs
from lakesweep.paimon.owners import (
    ManifestList,
    Owner,
    OwnerFile,
    Role,
    list_branch,
    read_owner,
)
from lakesweep.paimon.packs import Sidecar, find_sidecars, read_packs
from lakesweep.paimon.roots import root_files
from lakesweep.paimon.table import Branch, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities
from lakesweep.storage.batches import gather
from lakesweep.storage.files import batch_of, file_batch
from lakesweep.storage.store import ObjectInfo
from lakesweep.storage.tolerance import READ_ERRORS, Tolerance, problem_of
from lakesweep.storage.unique import unique_files

Result = TypeVar("Result")

#: How many entries are read ahead, unless they are all of one manifest: memory stays flat.
_ENTRIES_AHEAD = 100_000


def reached_files(
    table: PaimonTable, tolerance: Tolerance, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """All files that a table reaches, as FILE_SCHEMA, children before parents."""
    return unique_files(gather(Walk(table, tolerance, workers).files()))


class List(NamedTuple):
    """A manifest list, and the layout that the paths of its files are made by."""

    layout: Layout
    file: ManifestList


class Manifest(NamedTuple):
    """A manifest of a list; `needed` where an owner cannot do without it."""

    layout: Layout
    file: ManifestFile
    kind: Kind
    needed: bool

    @property
    def key(self) -> Hashable:
        """What it is known by: where its files lie is said by the layout."""
        return self.layout.place, self.file.name


class Contents(NamedTuple):
    """What a manifest names, and the sidecars among it that name packs."""

    files: list[pa.RecordBatch]
    sidecars: list[Sidecar]


@dataclass
class Walk:
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
    owners: list[Owner] = field(default_factory=list)
    layouts: dict[str, Layout] = field(default_factory=dict)
    needs: Needs = field(init=False)
    _sidecars: HashSet = field(default_factory=HashSet)

    def files(self) -> Iterator[pa.RecordBatch]:
        """All files; some of them more than once."""
        files = (file for branch in self.table.branches() for file in self._list(branch))
        new = (file for file in files if file.info not in self.known_owners)
        found = map_ordered(self._read_owner, new, workers=self.workers)
        self.owners = [owner for owner in found if owner is not None]
        self.needs = Needs(self.table, self.owners)
        yield from self._below()
        yield from self._indexes()
        names = {owner.snapshot.statistics for owner in self.owners}
        paths = (self.table.layout.statistics(name) for name in sorted(filter(None, names)))
        yield file_batch(Kind.STATISTICS, ((path, None) for path in paths))
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
            yield self._meta(Kind.EXTRA, ((name, None) for name in manifest.file.extra_files))
            yield self._meta(Kind.MANIFEST, [(manifest.file.name, manifest.file.size_bytes)])
        yield self._meta(
            Kind.MANIFEST_LIST, ((each.file.name, each.file.size_bytes) for each in lists)
        )

    def _indexes(self) -> Iterator[pa.RecordBatch]:
        """Index manifests, each behind the files that it names."""
        for name, paths, sizes in map_ordered(
            self._read_indexes, self._index_manifests(), workers=self.workers
        ):
            yield batch_of(Kind.INDEX, paths, sizes)
            yield self._meta(Kind.INDEX_MANIFEST, [(name, None)])

    def _lists(self) -> Iterable[List]:
        """Each list once, those first that somebody needs."""
        found: dict[Hashable, List] = {}
        lists = ((owner, each) for owner in self.owners for each in owner.lists())
        for owner, each in sorted(lists, key=lambda pair: not pair[1].needed):
            layout = self.layouts[owner.branch.name]
            found.setdefault((layout.place, each.name), List(layout, each))
        return found.values()

    def _manifests(self, lists: Iterable[List]) -> Iterator[Manifest]:
        """Each manifest once."""
        seen = set(self.known_manifests)
        for each, manifests in map_ordered(self._read_list, lists, workers=self.workers):
            kind = Kind.CHANGELOG if each.file.role is Role.CHANGELOG else Kind.DATA
            for file in manifests:
                manifest = Manifest(each.layout, file, kind, each.file.needed)
                if manifest.key not in seen:
                    seen.add(manifest.key)
                    yield manifest

    def _index_manifests(self) -> Iterable[tuple[Layout, Owner]]:
        """Each once, with the owner that needs it most."""
        found: dict[Hashable, tuple[Layout, Owner]] = {}
        for owner in sorted(self.owners, key=lambda it: (not it.needs_state, -it.least_indexes)):
            name, layout = owner.snapshot.index_manifest, self.layouts[owner.branch.name]
            if name is not None:
                found.setdefault((layout.place, name), (layout, owner))
        return found.values()

    def _list(self, branch: Branch) -> list[OwnerFile]:
        try:
            return list_branch(branch)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return []

    def _read_owner(self, file: OwnerFile) -> Owner | None:
        try:
            # Without the layout of its branch nothing is known of what an owner names.
            self.layouts[file.branch.name] = file.branch.layout
            return read_owner(file)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return None

    def _read_list(self, each: List) -> tuple[List, tuple[ManifestFile, ...]]:
        file = each.file
        read = self._attempt(
            file.name,
            lambda: manifests_of(self.table, file.name, file.size_bytes, file.least),
            needed=file.needed,
        )
        return each, read or ()

    def _read(self, manifest: Manifest) -> tuple[Manifest, Contents]:
        read = self._attempt(
            manifest.file.name, lambda: self._contents(manifest), needed=manifest.needed
        )
        if read is not None:
            self.known_manifests.add(manifest.key)
        return manifest, read or Contents([], [])

    def _contents(self, manifest: Manifest) -> Contents:
        # All or nothing: what a damaged manifest names cannot be trusted.
        layout = manifest.layout
        contents = Contents([], [])
        for batch in read_entries(self.table, manifest.file, embedded_indexes=False):
            named = self.named(layout, batch)
            own = named.paths[: batch.num_rows]
            extra = named.paths[batch.num_rows :]
            contents.files.append(batch_of(manifest.kind, own, batch["size_bytes"]))
            contents.files.append(batch_of(Kind.EXTRA, extra))
            contents.sidecars.extend(find_sidecars(extra, own, named.rows[batch.num_rows :]))
        return contents

    def _read_indexes(self, which: tuple[Layout, Owner]) -> tuple[str, pa.Array, pa.Array]:
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
            yield file_batch(Kind.EXTRA, ((path, None) for path in paths))

    def _read_packs(self, sidecar: Sidecar) -> list[str]:
        try:
            return read_packs(self.table, sidecar)
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            return []

    def _meta(self, kind: Kind, files: Iterable[tuple[str, int | None]]) -> pa.RecordBatch:
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


def _weight(manifest: Manifest) -> int:
    return manifest.file.added + manifest.file.deleted
