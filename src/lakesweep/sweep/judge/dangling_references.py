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

#: So many files that were not listed are looked at by each task; writers make new ones all day.
MAX_LOOKUPS = 1_000
#: What roots name and do not need: these say nothing of how the others are spelled. Of a repository
#: old commits go on naming objects that were let go.
_NOT_NEEDED = pa.array(
    [IcebergKind.METADATA_LOG.value, IcebergKind.VERSION_HINT.value, LakefsKind.OBJECT.value]
)


class DanglingCount(msgspec.Struct, frozen=True):
    """How many references of one source lead nowhere, of those that were looked at."""

    source: int
    files: int


def loose_hashes(paths: pa.Array) -> Hashes:
    """Hashes of keys alone, runs of slashes taken for one: equal for all that may be meant."""
    keys = pc.replace_substring_regex(identities(paths), r"^[^/]*://[^/]*", "")
    return hash128(pc.replace_substring_regex(keys, r"//+", "/"))


@dataclass(frozen=True)
class DanglingMatches:
    """Tells of stored files whether a reference that leads nowhere may mean them."""

    filters: BloomShards

    def find(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        return self.filters.contains(loose_hashes(paths))


@dataclass(frozen=True)
class DanglingStep:
    """Writes the loose hashes of live files that were not listed into a dataset of HASHES.

    So it does with what live files lead to that are links.

    `stored` are filters of all that was listed. What lies below `others`, the locations of other
    lakes, is theirs to look at; `optional` are filters of what nobody misses. What lies in the
    lake's own locations should have been listed, so some of it is asked for once more.
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
    """What was asked for once more, and is not there."""

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
            return False  # nobody knows
        return False
