"""Dangling references, and the stored files that they may mean.

A table may know its files by other names than the store does: a client collapsed two slashes,
or a bucket has an alias. Then what is referenced is not stored, and what is stored looks
unreferenced. So a plan also matches the other way round. Files that a dangling reference may
mean are kept, and a guard reports the tables. A local file may also be a link whose target no
reference names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import InexactKeyError, LakesweepError, MissingError
from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.lakefs.mark_levels import RepositoryFileKind as LakefsKind
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets.writer import DatasetWriter
from lakesweep.storage.file_identity import hash_columns, link_targets, resolve_aliases
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine.tasks import task_result
from lakesweep.sweep.judge.bloom_filter import BloomShards

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.paths.folder_map import FolderMap

#: How many unlisted files each task looks up; writers create new ones all day.
MAX_LOOKUPS = 1_000
#: Kinds that roots name but do not need: they reveal nothing about how other files are spelled. Old
#: commits of a repository keep naming objects that were deleted on purpose.
_NOT_NEEDED = pa.array(
    [IcebergKind.METADATA_LOG.value, IcebergKind.VERSION_HINT.value, LakefsKind.OBJECT.value]
)


class DanglingCount(msgspec.Struct, frozen=True):
    """How many references of one source are dangling, among those that were checked."""

    source: int
    files: int


def loose_hashes(paths: pa.Array) -> Hashes:
    """Hashes of keys alone, with runs of slashes collapsed: equal for all possible spellings."""
    keys = pc.replace_substring_regex(identities(paths), r"^[^/]*://[^/]*", "")
    return hash128(pc.replace_substring_regex(keys, r"//+", "/"))


@dataclass(frozen=True)
class DanglingMatches:
    """Decides whether a dangling reference may mean a stored file."""

    filters: BloomShards

    def find(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        return self.filters.contains(loose_hashes(paths))


@dataclass(frozen=True)
class DanglingStep:
    """Writes the loose hashes of live files that were not listed into a dataset of HASHES.

    It does the same for the targets of live files that are links.

    `stored` are filters of everything listed. Files below `others`, the locations of other lakes,
    are left to those; `optional` are filters of files that may be missing. Files in the lake's own
    locations should have been listed, so some of them are looked up again.
    """

    stores: Stores
    address: str
    stored: Sequence[str]
    locations: FolderMap
    others: FolderMap
    optional: Sequence[str] = ()
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stored = BloomShards.load(self.stores, self.stored)
        writer = DatasetWriter(self.stores, self.address, HASHES)
        looks = _Lookups(self)
        for batch in batches:
            known = resolve_aliases(identities(batch["path"]))
            is_missing = pa.array(~stored.contains(hashes_of(batch)))
            missing, names = batch.filter(is_missing), known.filter(is_missing)
            mine = pa.array(self.others.find(names) < 0)
            for meant in (names.filter(mine), link_targets(known)):
                columns = hash_columns(loose_hashes(meant))
                writer.add(pa.RecordBatch.from_arrays(list(columns), schema=HASHES))
            looks.add(missing.filter(pa.array(self.locations.find(names) >= 0)))
        yield task_result("part", writer.finish())
        yield task_result("astray", looks.found())


class _Lookups:
    """Files that were looked up again and do not exist."""

    def __init__(self, step: DanglingStep) -> None:
        self._step = step
        self._seen = HashSet()
        self._found: dict[int, int] = {}
        self._optional = BloomShards.load(step.stores, step.optional) if step.optional else None

    def add(self, files: pa.RecordBatch) -> None:
        needed = files.filter(pc.invert(pc.is_in(files["kind"], value_set=_NOT_NEEDED)))
        if self._optional is not None:
            needed = needed.filter(pa.array(~self._optional.contains(hashes_of(needed))))
        left = max(0, MAX_LOOKUPS - len(self._seen))
        new = needed.filter(pa.array(self._seen.add(hashes_of(needed)))).slice(0, left)
        gone = map_ordered(self._is_gone, new["path"].to_pylist(), workers=self._step.workers)
        for source, is_gone in zip(new["source"].to_pylist(), gone, strict=True):
            self._found[source] = self._found.get(source, 0) + is_gone

    def found(self) -> Iterator[DanglingCount]:
        return (DanglingCount(source, files) for source, files in self._found.items() if files)

    def _is_gone(self, path: str) -> bool:
        try:
            place = parse(path)
            self._step.stores.open(place).head(place.key)
        except (MissingError, InexactKeyError):
            return True
        except LakesweepError:
            return False  # unknown counts as existing
        return False
