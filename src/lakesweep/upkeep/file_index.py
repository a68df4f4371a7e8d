"""Every file that the snapshots of a table reach, and which of them reach it.

Manifest lists and manifests are read once, however often the table is looked at afterwards: when
it moves on, only what is new is read. What an expiry frees is decided by reachability alone, all
that was reachable before and is not after. Entries marked as deleted are history: they neither keep
a file nor condemn it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import FoundMetadata, IcebergMetadataLevel
from lakesweep.iceberg.metadata import IcebergSnapshot, SizedFile, TableMetadata
from lakesweep.marks.columns import POINTERS
from lakesweep.marks.pointers import Pointer, merge_pointers, pointer_to, pointers_of
from lakesweep.marks.unreadable import Problem
from lakesweep.marks.walk import mark_source
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.file_batches import FILE_SCHEMA, file_batch
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.stores import Keyring, Stores
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.upkeep.hashed_rows import ROWS
from lakesweep.upkeep.manifest_source import ASKED, LocalManifests, ManifestSource

#: Owners of a manifest or file: none of those asked for, or more than one.
_NOBODY, _SEVERAL = -2, -1
_Key = tuple[int, int]
_Numbers = npt.NDArray[np.int32]
_Mask = npt.NDArray[np.bool_]
_MANIFESTS = pa.schema([ROWS.field("manifest")])
#: Files of one owner, and their size as far as known.
_HELD = pa.schema([("owner", pa.int32()), ("files", pa.int64()), ("bytes", pa.int64())])


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Files, and their size as far as known."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: HeldFiles) -> HeldFiles:
        return HeldFiles(self.files + other.files, self.size_bytes + other.size_bytes)


@dataclass(frozen=True, slots=True)
class _ReadList:
    path: str
    size_bytes: int | None
    manifests: _Numbers
    problems: tuple[Problem, ...]


class FileIndex:
    """The files of one table. Leaving the context removes what is on disk.

    Without a `source`, lists and manifests are read on threads of this process.
    """

    def __init__(
        self,
        stores: Stores,
        *,
        workers: int = 16,
        progress: Progress = SILENT,
        source: ManifestSource | None = None,
    ) -> None:
        self._keyring = Keyring(stores)
        self._source = source or LocalManifests(self._keyring, workers)
        self._progress = progress
        self._lists: dict[_Key, _ReadList] = {}
        self._numbers: dict[_Key, int] = {}
        self._manifests: list[Pointer] = []
        self._unread: list[int] = []
        self._problems: dict[int, tuple[Problem, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def read_lists(self, metadata: TableMetadata) -> None:
        """Read the manifest lists that were not read before."""
        level = IcebergMetadataLevel(self._keyring)
        found = FoundMetadata(metadata, file_batch(IcebergKind.VERSION_HINT, ()))
        source = mark_source(level, pointer_to(metadata.path, IcebergKind.METADATA), found)
        children = merge_pointers(each.select(POINTERS.names) for each in source.children)
        is_list = pc.equal(children["kind"], IcebergKind.MANIFEST_LIST.value)
        is_manifest = pc.equal(children["kind"], IcebergKind.MANIFEST.value)
        for batch in children.filter(is_manifest).to_batches():
            self._number(batch)
        lists = pointers_of(children.filter(is_list))
        unread = [each for each in lists if (each.h1, each.h2) not in self._lists]
        if unread:
            self._read_lists(unread)

    def _read_lists(self, unread: list[Pointer]) -> None:
        numbers: list[list[_Numbers]] = [[] for _ in unread]
        sizes: list[int | None] = [None for _ in unread]
        problems: list[tuple[Problem, ...]] = [() for _ in unread]
        with self._progress.task("manifest lists", total=len(unread)) as task:
            for each in self._source.lists(unread):
                numbers[each.number] += map(self._number, each.manifests)
                sizes[each.number] = each.size_bytes or sizes[each.number]
                problems[each.number] += each.problems
                task.advance(1)
        for pointer, size, some, why in zip(unread, sizes, numbers, problems, strict=True):
            together = np.concatenate([np.zeros(0, np.int32), *some])
            self._lists[pointer.h1, pointer.h2] = _ReadList(pointer.path, size, together, why)

    def read_manifests(self) -> None:
        """Read the manifests that lists named and that were not read before."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        manifests = [(number, self._manifests[number]) for number in unread]
        with self._progress.task("manifests", total=len(unread)) as task:
            for number, problems in self._source.read(manifests):
                if problems:
                    self._problems[number] = problems
                task.advance(1)

    def problems(self, metadata: TableMetadata) -> list[Problem]:
        """What the snapshots of a table reach and could not be read."""
        found = [each for one in self._lists_of(metadata).values() for each in one.problems]
        for number in np.flatnonzero(self._listed(metadata.snapshots)).tolist():
            found.extend(self._problems.get(number, ()))
        return found

    def freed(self, before: TableMetadata, after: TableMetadata) -> Iterator[pa.RecordBatch]:
        """The files (FILE_SCHEMA) that are reached before and not after, each once."""
        kept = self._listed(after.snapshots)
        gone = self._listed(before.snapshots) & ~kept
        if gone.any():
            self.read_manifests()
            yield from self._source.map(partial(_freed, kept, gone), FILE_SCHEMA)
        manifests = [self._manifests[number] for number in np.flatnonzero(gone).tolist()]
        yield file_batch(IcebergKind.MANIFEST, ((each.path, each.size_bytes) for each in manifests))
        stay = self._lists_of(after)
        lists = [one for key, one in self._lists_of(before).items() if key not in stay]
        yield file_batch(
            IcebergKind.MANIFEST_LIST, ((each.path, each.size_bytes) for each in lists)
        )
        for kind, files, left in _statistics(before, after):
            yield file_batch(kind, _without(files, left))

    def reached_among(self, batches: Iterable[pa.RecordBatch], metadata: TableMetadata) -> HashSet:
        """The hashes of those files that a table reaches."""
        self.read_lists(metadata)
        self.read_manifests()
        kept, found = self._listed(metadata.snapshots), HashSet()
        names = [self._manifests[number].path for number in np.flatnonzero(kept).tolist()]
        names += [each.path for each in self._lists_of(metadata).values()]
        names += [each.path for each in (*metadata.statistics, *metadata.partition_statistics)]
        names += [metadata.path, *metadata.log]
        others = HashSet()
        others.add(file_hashes(pa.array(names, pa.string())))

        def asked() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                found.add(_common(others, file_hashes(batch["path"])))
                yield batch

        for rows in self._source.map(partial(_reached, kept), HASHES, asked()):
            found.add(hashes_of(rows))
        return found

    def holders(self, path: str, metadata: TableMetadata) -> list[int]:
        """The snapshots of a table that reach a file, with all manifests read."""
        key = _key(path)
        naming = set[int]()
        for rows in self._source.map(partial(_naming, key), _MANIFESTS):
            naming.update(rows["manifest"].to_pylist())
        if key in self._numbers:
            naming.add(self._numbers[key])
        return [
            each.id
            for each in metadata.snapshots
            if (each.manifest_list is not None and _key(each.manifest_list) == key)
            or naming.intersection(self._manifests_of(each).tolist())
        ]

    @property
    def unread(self) -> int:
        """How many manifests lists named and that were not read yet."""
        return len(self._unread)

    def count_content(self, metadata: TableMetadata) -> int:
        """How many data and delete files a table reaches."""
        counted = self._source.map(partial(_count, self._listed(metadata.snapshots)), _HELD)
        return sum(pc.sum(batch["files"]).as_py() or 0 for batch in counted)

    def count_manifests(self, snapshots: Iterable[IcebergSnapshot]) -> int:
        """How many manifests some snapshots list."""
        return int(self._listed(snapshots).sum())

    def content(self, snapshots: Iterable[IcebergSnapshot]) -> Iterator[pa.RecordBatch]:
        """The data and delete files that some snapshots reach, each once, as ROWS."""
        return self._source.map(partial(_content, self._listed(snapshots)), ROWS)

    def held_alone(
        self, snapshots: Iterable[IcebergSnapshot], owners: Mapping[int, int]
    ) -> dict[int, HeldFiles]:
        """What each owner alone holds: files that no snapshot of another owner reaches.

        `owners` gives each snapshot the number of its owner; snapshots without one are not asked.
        """
        asked = [each for each in snapshots if each.id in owners]
        by_manifest = self._owners(asked, owners)
        held = dict.fromkeys(owners.values(), HeldFiles())
        for number, owner in enumerate(by_manifest.tolist()):
            if owner >= 0:
                held[owner] += HeldFiles(1, self._manifests[number].size_bytes or 0)
        for owner, size in self._own_lists(asked, owners):
            held[owner] += HeldFiles(1, size or 0)
        for rows in self._source.map(partial(_alone, by_manifest), _HELD):
            for owner, files, size in zip(*(c.to_pylist() for c in rows.columns), strict=True):
                held[owner] += HeldFiles(files, size)
        return held

    def _owners(
        self, snapshots: Iterable[IcebergSnapshot], owners: Mapping[int, int]
    ) -> npt.NDArray[np.int32]:
        found = np.full(len(self._manifests), _NOBODY, np.int32)
        for snapshot in snapshots:
            listed, owner = self._manifests_of(snapshot), owners[snapshot.id]
            known = found[listed]
            found[listed] = np.where((known == _NOBODY) | (known == owner), owner, _SEVERAL)
        return found

    def _own_lists(
        self, snapshots: Iterable[IcebergSnapshot], owners: Mapping[int, int]
    ) -> Iterator[tuple[int, int | None]]:
        found: dict[_Key, set[int]] = {}
        for snapshot in snapshots:
            if snapshot.manifest_list is not None:
                found.setdefault(_key(snapshot.manifest_list), set()).add(owners[snapshot.id])
        for key, several in found.items():
            if len(several) == 1:
                yield several.pop(), self._lists[key].size_bytes

    def _number(self, manifests: pa.RecordBatch) -> _Numbers:
        """The numbers of manifests (POINTERS). Most of a list are known from the one before."""
        low, high = (manifests[name].to_numpy().tolist() for name in HASHES.names)
        keys = [*zip(low, high, strict=True)]
        unknown = [place for place, key in enumerate(keys) if key not in self._numbers]
        for pointer in pointers_of(manifests.take(pa.array(unknown, pa.int64()))):
            key = (pointer.h1, pointer.h2)
            if key not in self._numbers:
                self._numbers[key] = len(self._manifests)
                self._unread.append(len(self._manifests))
                self._manifests.append(pointer)
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int32, len(keys))

    def _lists_of(self, metadata: TableMetadata) -> dict[_Key, _ReadList]:
        paths = [each.manifest_list for each in metadata.snapshots if each.manifest_list]
        return {key: self._lists[key] for key in _keys(paths)}

    def _listed(self, snapshots: Iterable[IcebergSnapshot]) -> _Mask:
        found = np.zeros(len(self._manifests), np.bool_)
        for snapshot in snapshots:
            found[self._manifests_of(snapshot)] = True
        return found

    def _manifests_of(self, snapshot: IcebergSnapshot) -> _Numbers:
        if snapshot.manifest_list is not None:
            return self._lists[_key(snapshot.manifest_list)].manifests
        numbers = [self._numbers[key] for key in _keys(snapshot.manifests)]
        return np.array(numbers, np.int32)


def _common(asked: HashSet, hashes: Hashes) -> Hashes:
    is_asked = asked.contains(hashes)
    return hashes[0][is_asked], hashes[1][is_asked]


def _reachable(part: pa.Table, listed: _Mask) -> pa.Table:
    """The rows of manifests that are listed."""
    return part.filter(pa.array(listed[part["manifest"].to_numpy()]))


def _freed(kept: _Mask, gone: _Mask, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """The files that only manifests name which are gone, each once, as FILE_SCHEMA."""
    seen = HashSet()
    seen.add(hashes_of(_reachable(part, kept)))
    free = _reachable(part, gone)
    yield from _files(free.filter(pa.array(seen.add(hashes_of(free)))))


def _content(listed: _Mask, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """The files that listed manifests name, each once, as ROWS."""
    rows = _reachable(part, listed)
    yield from rows.filter(pa.array(HashSet().add(hashes_of(rows)))).to_batches()


def _count(listed: _Mask, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """How many files listed manifests name, as _HELD."""
    files = sum(batch.num_rows for batch in _content(listed, part))
    yield pa.RecordBatch.from_pydict({"owner": [0], "files": [files], "bytes": [0]}, _HELD)


def _naming(key: _Key, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """The manifests that name one file."""
    same = pc.and_(pc.equal(part["h1"], key[0]), pc.equal(part["h2"], key[1]))
    yield from part.filter(same).select(_MANIFESTS.names).to_batches()


def _reached(kept: _Mask, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """The files asked about that listed manifests name, as HASHES."""
    is_asked = pc.equal(part["manifest"], ASKED)
    asked = HashSet()
    asked.add(hashes_of(part.filter(is_asked)))
    rows = _reachable(part.filter(pc.invert(is_asked)), kept)
    found = rows.filter(pa.array(asked.contains(hashes_of(rows))))
    yield from found.select(HASHES.names).to_batches()


def _alone(by_manifest: _Numbers, part: pa.Table) -> Iterator[pa.RecordBatch]:
    """How much each owner alone holds, as _HELD."""
    owners = by_manifest[part["manifest"].to_numpy()]
    asked = part.select(["h1", "h2", "size_bytes"]).append_column("owner", pa.array(owners))
    asked = asked.filter(pc.not_equal(asked["owner"], _NOBODY))
    files = asked.group_by(["h1", "h2"]).aggregate(
        [("owner", "min"), ("owner", "max"), ("size_bytes", "max")]
    )
    is_alone = pc.and_(
        pc.equal(files["owner_min"], files["owner_max"]),
        pc.not_equal(files["owner_min"], _SEVERAL),
    )
    totals = (
        files.filter(is_alone)
        .group_by("owner_min")
        .aggregate([([], "count_all"), ("size_bytes_max", "sum")])
    )
    sizes = pc.fill_null(totals["size_bytes_max_sum"], 0)
    columns = [totals["owner_min"], totals["count_all"], sizes]
    yield from pa.Table.from_arrays(columns, schema=_HELD).to_batches()


def _files(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows as FILE_SCHEMA."""
    for batch in rows.to_batches():
        unknown = (
            pa.nulls(batch.num_rows, FILE_SCHEMA.field(name).type) for name in ("modified", "etag")
        )
        yield pa.RecordBatch.from_arrays(
            [batch["path"], batch["kind"], batch["size_bytes"], *unknown], schema=FILE_SCHEMA
        )


def _statistics(
    before: TableMetadata, after: TableMetadata
) -> Iterator[tuple[IcebergKind, tuple[SizedFile, ...], tuple[SizedFile, ...]]]:
    # A path that either kind still names stays.
    left = (*after.statistics, *after.partition_statistics)
    yield IcebergKind.STATISTICS, before.statistics, left
    yield IcebergKind.PARTITION_STATISTICS, before.partition_statistics, left


def _without(
    files: tuple[SizedFile, ...], left: tuple[SizedFile, ...]
) -> Iterator[tuple[str, int | None]]:
    seen = set(_keys([each.path for each in left]))
    for key, file in zip(_keys([each.path for each in files]), files, strict=True):
        if key not in seen:
            seen.add(key)
            yield file.path, file.size_bytes


@lru_cache(maxsize=1 << 16)
def _key(path: str) -> _Key:
    return _keys([path])[0]


def _keys(paths: Iterable[str]) -> list[_Key]:
    """The hashes by which pointers tell files apart."""
    low, high = file_hashes(pa.array(list(paths), pa.string()))
    return list(zip(low.view(np.int64).tolist(), high.view(np.int64).tolist(), strict=True))
