"""Dangling references, and the stored files that they may mean.

A table may know its files by other names than the store does: a client encoded a key, or a
bucket has an alias. Then what is referenced is not stored, and what is stored looks
unreferenced. So a plan also matches the other way round, completely: files that a dangling
reference may mean are kept, and a guard reports the tables. A local file may also be a link
whose target no reference names.

Clients change keys on the way to a store: they encode and decode percent signs, write a space
as `+`, collapse slashes, resolve `.` and `..`, or change the Unicode normal form. So a table may
name a file by another key than the store does. Comparing the loosest spellings of both can only
keep files; it never decides that a file is deleted, and never changes a key that is sent to a
store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import normalize
from urllib.parse import unquote_plus

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError
from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.lakefs.mark_levels import RepositoryFileKind as LakefsKind
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets.writer import DatasetWriter
from lakesweep.storage.file_identity import hash_columns, link_targets, resolve_aliases
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine.protocol import task_result
from lakesweep.sweep.judge.bloom_shards import BloomShards, StoredShard

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.paths.folder_map import FolderMap


#: Kinds that roots name but do not need: they reveal nothing about how other files are spelled. Old
#: commits of a repository keep naming objects that were deleted on purpose.
_NOT_NEEDED = pa.array(
    [IcebergKind.METADATA_LOG.value, IcebergKind.VERSION_HINT.value, LakefsKind.OBJECT.value]
)
#: A key may be encoded more than once; no real one is encoded this often.
_ROUNDS = 8
_DOTS = r"(?:^|/)\.{1,2}(?:/|$)"
_STORE = r"^[^/]*://[^/]*"
#: What keys contain that have more spellings than one.
_SPELLED = rf"[%+]|[^\x00-\x7f]|{_DOTS}"
_DOTTED = re.compile(_DOTS)
_SLASHES = re.compile(r"//+")


class DanglingCount(msgspec.Struct, frozen=True):
    """How many references of one source are dangling."""

    source: int
    files: int


@dataclass(frozen=True)
class DanglingMatches:
    """Decides whether a dangling reference may mean a stored file."""

    filters: BloomShards

    def find(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        loose = loose_keys(paths)
        return loose.rows_where(self.filters.contains(loose.hashes), len(paths))


@dataclass(frozen=True)
class DanglingStep:
    """Writes the loose hashes of live files (LIVE) that were not listed into a dataset of HASHES.

    Files below `others`, the locations of other lakes, are left to those. Files in the lake's own
    `locations` should have been listed. A writer may have created them since, so each is looked up
    again, and those that do not exist are counted; `optional` are filters of files that may be
    missing.
    """

    stores: Stores
    address: str
    locations: FolderMap
    others: FolderMap
    optional: Sequence[StoredShard] = ()
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HASHES)
        missing = _MissingFiles(self)
        for batch in batches:
            names = resolve_aliases(identities(batch["path"]))
            mine = names.filter(pa.array(self.others.find(names) < 0))
            writer.add(_loose_rows(mine))
            missing.add(batch.filter(pa.array(self.locations.find(names) >= 0)))
        yield task_result("part", writer.finish())
        yield task_result("files", [missing.files])
        yield task_result("astray", missing.by_source())


@dataclass(frozen=True)
class LinkStep:
    """Writes the loose hashes of what live files lead to that are local links, as HASHES."""

    stores: Stores
    address: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in batches:
            writer.add(_loose_rows(link_targets(resolve_aliases(identities(batch["path"])))))
        yield task_result("part", writer.finish())


def _loose_rows(paths: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(hash_columns(loose_keys(paths).hashes)), schema=HASHES)


class _FileLookup:
    """Looks up each file once; remembers 24 to 48 bytes for each."""

    def __init__(self, stores: Stores, workers: int) -> None:
        self._stores = stores
        self._workers = workers
        self._seen, self._gone = HashSet(), HashSet()

    def __len__(self) -> int:
        """How many files do not exist."""
        return len(self._gone)

    def missing(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of files that do not exist, or cannot be looked up."""
        new = rows.filter(pa.array(self._seen.add(hashes_of(rows))))
        gone = map_ordered(self._is_gone, new["path"].to_pylist(), workers=self._workers)
        self._gone.add(hashes_of(new.filter(pa.array(list(gone), pa.bool_()))))
        return rows.filter(pa.array(self._gone.contains(hashes_of(rows))))

    def _is_gone(self, path: str) -> bool:
        try:
            place = parse(path)
            self._stores.open(place).head(place.key)
        except LakesweepError:
            return True  # what cannot be looked up may as well be missing: its table is kept
        return False


class _MissingFiles:
    """References of a task that lead to nothing stored."""

    def __init__(self, step: DanglingStep) -> None:
        self._lookup = _FileLookup(step.stores, step.workers)
        self._counts: Counter[int] = Counter()
        self._optional = BloomShards.load(step.stores, step.optional) if step.optional else None

    @property
    def files(self) -> int:
        return len(self._lookup)

    def add(self, files: pa.RecordBatch) -> None:
        needed = files.filter(pc.invert(pc.is_in(files["kind"], value_set=_NOT_NEEDED)))
        if self._optional is not None:
            needed = needed.filter(pa.array(~self._optional.contains(hashes_of(needed))))
        # Every source counts, not just the first: each table that lacks the file is named.
        self._counts.update(self._lookup.missing(needed)["source"].to_pylist())

    def by_source(self) -> Iterator[DanglingCount]:
        return (DanglingCount(source, files) for source, files in self._counts.items())


@dataclass(frozen=True, slots=True)
class LooseKeys:
    """Keys in their loosest spelling, each with the row of the path that it is of.

    Nearly all paths have one. A path with `..` has one for each way in which clients resolve it.
    """

    rows: npt.NDArray[np.int64]
    keys: pa.Array

    @property
    def hashes(self) -> Hashes:
        """Equal for spellings of one key in any store."""
        return hash128(self.keys)

    def rows_where(self, matches: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
        """Which of `count` paths have a spelling that matches."""
        found = np.zeros(count, np.bool_)
        found[self.rows[matches]] = True
        return found


def loose_keys(paths: pa.Array) -> LooseKeys:
    """Keys without their store, in their loosest spellings."""
    keys = pc.replace_substring_regex(identities(paths), _STORE, "")
    is_spelled = pc.match_substring_regex(keys, _SPELLED)
    rows = np.arange(len(keys), dtype=np.int64)
    # Nearly all keys are plain, and stay in Arrow.
    plain = pc.replace_substring_regex(keys, r"//+", "/")
    if not pc.any(is_spelled).as_py():
        return LooseKeys(rows, plain)
    spelled = np.asarray(is_spelled)
    found = [
        (row, each)
        for row in np.flatnonzero(spelled).tolist()
        for each in sorted(_spellings(keys[row].as_py()))
    ]
    numbers = np.array([row for row, _ in found], np.int64)
    texts = pa.array([text for _, text in found], plain.type)
    kept = plain.filter(pc.invert(is_spelled))
    return LooseKeys(np.concatenate([rows[~spelled], numbers]), pa.concat_arrays([kept, texts]))


def loose_paths(paths: pa.Array) -> LooseKeys:
    """The same, with the store before each key."""
    loose = loose_keys(paths)
    stores = pc.replace_substring_regex(identities(paths), rf"({_STORE})?.*", r"\1")
    whole = pc.binary_join_element_wise(stores.take(pa.array(loose.rows)), loose.keys, "")
    return LooseKeys(loose.rows, whole)


def folder_spellings(folder: str) -> Iterator[str]:
    """An identity that ends in `/`, and the folders that clients may take it for."""
    yield folder
    store, _, rest = folder.rpartition("://")
    start = len(folder) - len(rest) + rest.index("/") if store else 0
    for key in sorted(_spellings(folder[start:])):
        if key != folder[start:]:
            yield folder[:start] + key


def _spellings(key: str) -> set[str]:
    """What a client may make of a key: it may resolve dots before or after it decodes."""
    decoded = _decoded(key)
    if not (_DOTTED.search(key) or _DOTTED.search(decoded)):
        return {_SLASHES.sub("/", decoded)}
    ways = (way(text) for text in (key, decoded) for way in (_as_path, _as_url))
    return {_as_path(_decoded(each)) for each in ways}


def _decoded(key: str) -> str:
    for _ in range(_ROUNDS):
        decoded = normalize("NFKC", unquote_plus(key, errors="replace"))
        if decoded == key:
            break
        key = decoded
    return key


def _as_path(key: str) -> str:
    """Dots resolved as in file names, where `a//b` is `a/b`."""
    return _as_url(_SLASHES.sub("/", key))


def _as_url(key: str) -> str:
    """Dots resolved as in URLs, where the empty name of `a//b` counts. None leads above `/`."""
    found: list[str] = []
    for name in key.removeprefix("/").split("/"):
        if name == "..":
            del found[-1:]
        elif name != ".":
            found.append(name)
    is_folder = key.rpartition("/")[2] in ("", ".", "..")
    if is_folder and (not found or found[-1]):
        found.append("")
    return "/" + "/".join(found)
