"""Reuse earlier marks: a manifest that was read once is not read again.

Manifests are immutable. If address and size match one that was read to its end, it names the
same files, and its rows are reused. Before that, the hashes of the stored parts, the hashes
of the paths and the number of rows are compared. If anything differs, nothing is reused and
the manifests are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.lakefs.mark_levels import RepositoryFileKind as LakefsKind
from lakesweep.marks.columns import POINTERS
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset, read_part
from lakesweep.storage.datasets.writer import DatasetWriter, new_part_name, write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.sweep.mark.mark_sink import (
    DATASETS,
    NAMED_PARTS,
    is_among,
    named_parts,
    parts_by_dataset,
    provisional,
)
from lakesweep.sweep.mark.marks import Marks, dataset_address
from lakesweep.untrusted.limits import read_failure

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.sweep.engine.protocol import MarkEngine

Numbers = npt.NDArray[np.int64]
NO_REUSE: Numbers = np.empty(0, dtype=np.int64)

_ADOPTED = ("content", "sources", "usage")
#: What whole roots lead to is adopted with the links between them.
_ADOPTED_WHOLE = (*_ADOPTED, "edges")
_KEY = ["source", "h1", "h2", "size_bytes"]
_WANTED = pa.schema([POINTERS.field(name) for name in (*_KEY, "entries")])
_KNOWN = pa.schema([(name, pa.int64()) for name in (*_KEY, "seen")])
#: Kinds whose files never change under their names.
_IMMUTABLE = [IcebergKind.MANIFEST.value, LakefsKind.RANGE.value]
#: Up to this size, rows are copied in this process: starting tasks would take longer.
_LITTLE_BYTES = 32 << 20
#: Parts that one call reads in parallel.
_READERS = 2


@dataclass(frozen=True)
class ReusedManifests:
    """Manifests that need not be read, and dataset parts with everything they name."""

    sources: Numbers = field(default_factory=lambda: NO_REUSE)
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class MarkCache:
    """Earlier marks. With `into`, what they know becomes part of the marks at that address.

    Without it, it is only skipped, for callers that use the earlier marks as well.
    """

    marks: Marks
    into: str | None

    def reuse(
        self, engine: MarkEngine, stores: StoreOpener, manifests: Dataset, work: str
    ) -> ReusedManifests:
        """What need not be read of these manifests; nothing, if the earlier marks are damaged."""
        try:
            sources = known_manifests(stores, manifests, self.marks.datasets["sources"])
            if not len(sources) or self.into is None:
                return ReusedManifests(sources)
            adopting = _Adopting(engine, stores, self.marks, sources, self.into, work)
            return ReusedManifests(sources, adopting.parts())
        # A damaged cache costs time, never a file: everything is read again.
        except Exception as error:
            return ReusedManifests(problem=read_failure("earlier marks", error).message)


def known_manifests(stores: StoreOpener, manifests: Dataset, sources: Dataset) -> Numbers:
    """The numbers, sorted, of the manifests that earlier marks read completely."""
    wanted = pa.Table.from_batches(read_dataset(stores, manifests, _WANTED.names), _WANTED)
    known = pa.Table.from_batches(_read_before(stores, sources), _KNOWN)
    if not wanted.num_rows or not known.num_rows:
        return NO_REUSE
    both = wanted.join(known, _KEY, join_type="inner")
    # The count in the current list must match what was read then, as when reading.
    whole = pc.greater_equal(both["seen"], pc.fill_null(both["entries"], 0))
    numbers = both.filter(whole)["source"].to_numpy()
    found, times = np.unique(wanted["source"].to_numpy(), return_counts=True)
    return np.intersect1d(np.unique(numbers), found[times == 1])


def adopt_sources(
    engine: MarkEngine, stores: StoreOpener, before: Marks, sources: Numbers, into: str, work: str
) -> Mapping[str, list[Part]]:
    """Everything that earlier marks know of sources, as parts of the marks at an address.

    DamagedError if something is missing.
    """
    return _Adopting(engine, stores, before, sources, into, work).parts(_ADOPTED_WHOLE)


@dataclass(frozen=True)
class _Adopting:
    engine: MarkEngine
    stores: StoreOpener
    before: Marks
    sources: Numbers
    into: str
    work: str

    def parts(self, names: Sequence[str] = _ADOPTED) -> Mapping[str, list[Part]]:
        """Everything of these sources, as parts of the new datasets."""
        datasets = {name: self.before.datasets[name] for name in names}
        rows = [named_parts(name, dataset.parts) for name, dataset in datasets.items()]
        step = AdoptStep(self.stores, datasets, self.sources, self.into)
        parts = parts_by_dataset(self._run(step, rows, _size(datasets.values())))
        self._check(parts)
        return parts

    def _run(self, step: AdoptStep, rows: Sequence[pa.RecordBatch], size_bytes: int) -> pa.Table:
        if size_bytes <= _LITTLE_BYTES:
            return pa.Table.from_batches(step(rows), NAMED_PARTS)
        listed = write_dataset(self.stores, self.work, NAMED_PARTS, rows)
        return self.engine.gather(step, listed, NAMED_PARTS)

    def _check(self, parts: Mapping[str, list[Part]]) -> None:
        """Check the number of files: if the cache lost rows, live files would look unreferenced."""
        usage = provisional(dataset_address(self.into, "usage"), "usage", parts["usage"])
        batches = read_dataset(self.stores, usage, ["files"])
        expected = sum(pc.sum(batch["files"]).as_py() for batch in batches)
        found = sum(part.rows for part in parts["content"])
        if found != expected:
            reason = f"names {found} of {expected} files"
            raise DamagedError(self.before.datasets["content"].address, reason)


def _size(datasets: Iterable[Dataset]) -> int:
    return sum(part.size_bytes for dataset in datasets for part in dataset.parts)


def _read_before(stores: StoreOpener, sources: Dataset) -> Iterator[pa.RecordBatch]:
    is_read = pc.field("kind").isin(_IMMUTABLE) & pc.field("entries").is_valid()
    for batch in read_dataset(stores, sources, filter=is_read):
        h1, h2 = hash_columns(file_hashes(batch["path"]))
        columns = [batch["source"], h1, h2, batch["size_bytes"], batch["entries"]]
        yield pa.RecordBatch.from_arrays(columns, schema=_KNOWN)


@dataclass(frozen=True)
class AdoptStep:
    """Copies the rows of some sources from parts of earlier datasets.

    A kernel for any engine: NAMED_PARTS in and out. A part that is needed as a whole is copied
    unchanged.
    """

    stores: StoreOpener
    datasets: Mapping[str, Dataset]
    sources: Numbers
    into: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name, parts in parts_by_dataset(pa.Table.from_batches([batch])).items():
                yield named_parts(name, self._adopt(name, parts))

    def _adopt(self, name: str, parts: Sequence[Part]) -> Iterator[Part]:
        dataset, address = self.datasets[name], dataset_address(self.into, name)
        writer = DatasetWriter(self.stores, address, DATASETS[name])
        copies = map_ordered(partial(self._copied, dataset, address), parts, workers=_READERS)
        for part, copied in zip(parts, copies, strict=True):
            if copied is not None:
                yield copied
            else:
                for batch in read_part(self.stores, dataset, part):
                    writer.add(self._adopted(batch))
        yield from writer.finish()

    def _copied(self, dataset: Dataset, address: str, part: Part) -> Part | None:
        """A copy of a part that is needed unchanged."""
        if not all(self._is_same(batch) for batch in read_part(self.stores, dataset, part)):
            return None
        return self._copy(dataset.address + part.name, address, part)

    def _is_same(self, batch: pa.RecordBatch) -> bool:
        return bool(self._adopted(batch).equals(batch))

    def _adopted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The needed rows, with current hashes: local links may have changed since."""
        column = "source" if "source" in batch.schema.names else "parent"
        wanted = is_among(batch[column].to_numpy(), self.sources)
        rows = batch if wanted.all() else batch.filter(pa.array(wanted))
        if "h1" not in rows.schema.names:
            return rows
        for name, column in zip(("h1", "h2"), hash_columns(file_hashes(rows["path"])), strict=True):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), column)
        return rows

    def _copy(self, path: str, address: str, part: Part) -> Part:
        # Under a new name: marks made in several passes may use a part twice.
        copied = msgspec.structs.replace(part, name=new_part_name())
        source, target = parse(path), parse(f"{address}/{copied.name}")
        store = self.stores.open(target)
        if source.store_id == target.store_id:
            store.copy(source.key, target.key)
        else:
            store.write(target.key, self.stores.open(source).read(source.key))
        return copied
