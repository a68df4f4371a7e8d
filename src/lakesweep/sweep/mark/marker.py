"""Follow roots down to their files, level by level, and store the rows found on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.decoding import typed_json
from lakesweep.marks.columns import CHILDREN, POINTERS, RootFacts, source_numbers
from lakesweep.marks.file_level import Levels, LevelSpec
from lakesweep.marks.pointers import merge_pointers
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset, write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.stores import Keyring
from lakesweep.sweep.engine.protocol import MarkEngine, Step
from lakesweep.sweep.mark.levels import ROOT_LEVELS
from lakesweep.sweep.mark.mark_cache import (
    NO_REUSE,
    MarkCache,
    Numbers,
    ReusedManifests,
    adopt_sources,
    known_manifests,
)
from lakesweep.sweep.mark.mark_sink import (
    DATASETS,
    NAMED_PARTS,
    LevelStep,
    MarkSink,
    parts_by_dataset,
    provisional,
)
from lakesweep.sweep.mark.marks import MarkFigures, Marks, dataset_address
from lakesweep.sweep.mark.root_status import RootLineage, trace
from lakesweep.sweep.roots.root import RootRow

if TYPE_CHECKING:
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores

#: The datasets that are kept when marking ends; the rest is temporary.
_KEPT = ("content", "sources", "edges", "problems", "usage")


@dataclass(frozen=True)
class MarkSpec:
    """Where marking runs and writes, and which earlier marks save work.

    With `adopts`, what earlier marks know becomes part of the new ones; without, it is skipped, for
    callers that use both. `counts` is the folder for task progress.
    """

    engine: MarkEngine
    stores: Stores
    address: str
    cache: Marks | None = None
    adopts: bool = True
    counts: str | None = None


class Marker:
    """One marking, in any number of passes. They write parts; `commit` makes datasets of them."""

    def __init__(self, spec: MarkSpec) -> None:
        self._spec = spec
        self._address = spec.address.rstrip("/")
        self._steps = 0
        self._parts: defaultdict[str, list[Part]] = defaultdict(list)
        self._access: dict[StorageOptions | None, int] = {None: 0}
        self._numbers: dict[str, int] = {}
        self._facts: defaultdict[int, list[RootFacts]] = defaultdict(list)
        self._lineage: RootLineage | None = None
        self.figures = MarkFigures()

    def follow(self, roots: Sequence[RootRow]) -> None:
        """Read tables and views, and everything they lead to."""
        together: defaultdict[Levels, list[RootRow]] = defaultdict(list)
        for root in roots:
            together[ROOT_LEVELS[root.kind].levels].append(root)
        for levels, some in together.items():
            self._descend(levels, some)
            self._lineage = None

    def adopt(self, before: Marks, sources: Numbers) -> None:
        """Take over what earlier marks know of sources. DamagedError if something is missing."""
        spec = self._spec
        work = self._work("adopted")
        parts = adopt_sources(spec.engine, spec.stores, before, sources, self._address, work)
        for name, some in parts.items():
            self._parts[name] += some
        self._lineage = None

    def _descend(self, levels: Levels, roots: Sequence[RootRow]) -> None:
        """Run the levels, each over everything that those above it lead to."""
        children: list[Dataset] = []
        for spec in levels:
            pointers = self._distinct(children, spec) if children else self._write_pointers(roots)
            skipped = self._reuse(pointers) if spec.immutable else NO_REUSE
            children.append(self._read(spec, pointers, skipped))

    def number(self, root: RootRow) -> int:
        """The number of the root's own file."""
        return self._numbers[root.pointer]

    def facts(self, root: RootRow) -> Sequence[RootFacts]:
        """What the root's own file says, as far as it could be read."""
        return self._facts.get(self.number(root), [])

    def rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows written so far to one of the datasets."""
        dataset = provisional(self._place(name), name, self._parts[name])
        return read_dataset(self._spec.stores, dataset, columns)

    def children(self, number: int) -> frozenset[int]:
        """The numbers of the sources that one links to."""
        found: set[int] = set()
        for batch in self.rows("edges"):
            found.update(batch.filter(pc.equal(batch["parent"], number))["child"].to_pylist())
        return frozenset(found)

    def has_problems(self) -> bool:
        """Whether anything could not be read."""
        return bool(self._parts["problems"])

    def lineage(self) -> RootLineage:
        """Which roots lead to which sources."""
        if self._lineage is None:
            self._lineage = trace(self._numbers.values(), lambda: self.rows("edges"))
        return self._lineage

    def commit(self) -> dict[str, Dataset]:
        """Commit everything that was written as datasets."""
        stores = self._spec.stores
        return {
            name: commit_dataset(stores, self._place(name), self._parts[name], DATASETS[name])
            for name in _KEPT
        }

    def _read(self, spec: LevelSpec, pointers: Dataset, skipped: Numbers) -> Dataset:
        """Run one level; returns the children that it found."""
        stores = self._spec.stores
        children, facts = self._work("children"), self._work("facts")
        places = {name: self._place(name) for name in _KEPT}
        sink = MarkSink(stores, {**places, "children": children, "facts": facts})
        keyring = Keyring(stores, tuple(options for options in self._access if options))
        step = LevelStep(spec.level(keyring), sink, skipped, self._spec.counts)
        # If everything is known already, there is nothing to read.
        some = len(skipped) < pointers.rows
        found = self._gather(step, pointers) if some else defaultdict(list)
        for name in _KEPT:
            # Only parts that a task returned count; those of a repeated or failed task are never
            # named.
            self._parts[name] += found[name]
        self._keep_facts(provisional(facts, "facts", found["facts"]))
        if not found["children"]:
            return provisional(children, "children", [])
        return commit_dataset(stores, children, found["children"], CHILDREN)

    def _gather(self, step: Step, rows: Dataset) -> Mapping[str, list[Part]]:
        return parts_by_dataset(self._spec.engine.gather(step, rows, NAMED_PARTS))

    def _distinct(self, children: Sequence[Dataset], spec: LevelSpec) -> Dataset:
        address = self._work(spec.kind)
        some = [dataset for dataset in children if dataset.rows]
        if not some:
            return provisional(address, "pointers", [])
        return self._spec.engine.distinct(some, str(spec.kind), address)

    def _reuse(self, manifests: Dataset) -> Numbers:
        """The manifests that need not be read; what they name is reused, if wanted."""
        before = self._read_before(manifests)
        found = self._reusable(manifests) if len(before) < manifests.rows else ReusedManifests()
        for name, parts in found.parts.items():
            self._parts[name] += parts
        self.figures = msgspec.structs.replace(
            self.figures,
            manifests=self.figures.manifests + manifests.rows,
            reused=self.figures.reused + len(found.sources),
            cache_problem=self.figures.cache_problem or found.problem,
        )
        return np.union1d(before, found.sources)

    def _read_before(self, manifests: Dataset) -> Numbers:
        """The manifests that an earlier pass of this marking read, before a root moved."""
        if not manifests.rows or not self._parts["sources"]:
            return NO_REUSE
        sources = provisional(self._place("sources"), "sources", self._parts["sources"])
        return known_manifests(self._spec.stores, manifests, sources)

    def _reusable(self, manifests: Dataset) -> ReusedManifests:
        spec = self._spec
        if spec.cache is None:
            return ReusedManifests()
        cache = MarkCache(spec.cache, self._address if spec.adopts else None)
        return cache.reuse(spec.engine, spec.stores, manifests, self._work("adopted"))

    def _write_pointers(self, roots: Sequence[RootRow]) -> Dataset:
        pointers = self._pointers(roots)
        self._numbers |= zip(
            (root.pointer for root in roots), pointers["source"].to_pylist(), strict=True
        )
        merged = merge_pointers([pointers]).to_batches()
        return write_dataset(self._spec.stores, self._work("roots"), POINTERS, merged)

    def _pointers(self, roots: Sequence[RootRow]) -> pa.RecordBatch:
        paths = pa.array([root.file for root in roots], pa.string())
        pointers = pa.array([root.pointer for root in roots], pa.string())
        unknown = pa.nulls(len(roots), pa.int64())
        access = [self._access.setdefault(root.access, len(self._access)) for root in roots]
        # If a metadata file lacks its table's location, the catalog's applies.
        locations = [root.locations[0] if root.locations else None for root in roots]
        columns = [
            source_numbers(file_hashes(pointers)),
            *hash_columns(file_hashes(paths)),
            paths,
            pa.array([str(ROOT_LEVELS[root.kind].own) for root in roots], pa.string()),
            unknown,
            unknown,
            pa.array(locations, pa.string()),
            pa.array(access, pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=POINTERS)

    def _keep_facts(self, facts: Dataset) -> None:
        for batch in read_dataset(self._spec.stores, facts):
            for number, text in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                self._facts[number].append(typed_json(text, RootFacts))

    def _place(self, name: str) -> str:
        return dataset_address(self._address, name)

    def _work(self, name: str) -> str:
        self._steps += 1
        return f"{work_address(self._address)}/{self._steps:02}-{name}"


def work_address(address: str) -> str:
    """Where marks keep temporary data while they are made."""
    return f"{address.rstrip('/')}/work"
