"""The table of the addresses that a plan deletes, with all their paths and rules.

It is written when everything is known: an address that a policy expires may not be stored any
more, or be kept because something else references it. Tasks write into the folder of the plan,
where attempts that failed may leave files. Only the committed ones are copied to the table of all
runs, because its readers take every file that they find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.lifecycle.columns import ADDRESSES
from lakesweep.lifecycle.plan.object_verdicts import ReferenceSplitStep
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part, sha256_of
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset, new_part_name
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.tasks import TASK_RESULTS, results_of, task_result

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine


@dataclass(frozen=True)
class AddressTableStep:
    """Writes the expired addresses (EXPIRED) that have a `path` to delete, as ADDRESSES."""

    stores: Stores
    address: str
    run_id: str
    waits_for_heads: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, ADDRESSES)
        for batch in batches:
            found = pa.Table.from_batches([batch.filter(pc.is_valid(batch["path"]))])
            run_ids = pa.repeat(pa.scalar(self.run_id, pa.string()), found.num_rows)
            waits = pa.repeat(pa.scalar(self.waits_for_heads), found.num_rows)
            rows = found.append_column("run_id", run_ids).append_column("waits_for_heads", waits)
            for each in rows.to_batches():
                writer.add(each)
        yield task_result("addresses", writer.finish())


@dataclass(frozen=True)
class AddressTable:
    """Writes the table of a plan. `run_id` is the name of the plan, `folder` that of its files."""

    stores: Stores
    engine: SweepEngine
    run_id: str
    folder: str

    def write(self, expired: Dataset, deletes: Dataset, held: Dataset | None) -> Dataset:
        """The expired addresses whose objects are deleted (VERDICTS); `held` are on HEADs."""
        waiting, free = (None, deletes) if held is None else self._split(deletes, held)
        parts = self._choose(expired, free, waits_for_heads=False)
        if waiting is not None:
            parts += self._choose(expired, waiting, waits_for_heads=True)
        remove_folder(self.stores, f"{self.folder}/waiting")
        return commit_dataset(self.stores, self._address, parts, ADDRESSES)

    @property
    def _address(self) -> str:
        return f"{self.folder}/addresses"

    def _split(self, deletes: Dataset, held: Dataset) -> tuple[Dataset, Dataset]:
        folder = f"{self.folder}/waiting"
        step = ReferenceSplitStep(self.stores, f"{folder}/taken", f"{folder}/free")
        answers = self.engine.match(step, deletes, held, TASK_RESULTS)
        taken, free = (
            commit_dataset(
                self.stores, f"{folder}/{name}", results_of(answers, name, Part), LISTING
            )
            for name in ("taken", "free")
        )
        return taken, free

    def _choose(self, expired: Dataset, files: Dataset, *, waits_for_heads: bool) -> list[Part]:
        step = AddressTableStep(self.stores, self._address, self.run_id, waits_for_heads)
        answers = self.engine.pair(step, expired, files, ["path"], TASK_RESULTS)
        return list(results_of(answers, "addresses", Part))


def publish_table(stores: Stores, table: Dataset, address: str) -> None:
    """Copy a dataset to where plain readers find it; an empty one has an empty file."""
    source, target = parse(table.address), parse(address)
    store = stores.open(target)
    parts = list(table.parts)
    for part in parts:
        if source.store_id == target.store_id:
            store.copy(source.key + part.name, target.key + part.name)
        else:
            data = stores.open(source).read(source.key + part.name)
            store.write(target.key + part.name, data)
    if not parts:
        data = _empty_file(table.schema)
        parts.append(Part(new_part_name(), 0, len(data), sha256_of(data)))
        store.write(target.key + parts[0].name, data)
    commit_dataset(stores, address, parts, table.schema)


def _empty_file(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
