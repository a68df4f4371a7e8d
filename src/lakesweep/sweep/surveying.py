"""What is stored, then what is referenced: how plans and checks begin.

The order is the law. The listing is complete and stored before the first root is looked at: a file
that becomes referenced while it is being listed is seen to be referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets import Dataset, Part, commit_dataset, read_dataset
from lakesweep.storage.pieces import cut_locations
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.counting import showing
from lakesweep.sweep.formats import Foreign, Sign, formats_of
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import mark
from lakesweep.sweep.marks import Marks, load_marks
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.sweep.steps import InventoryStep, ListStep

if TYPE_CHECKING:
    from lakesweep.storage.inventory import Inventory
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.leases import HeldLease
    from lakesweep.sweep.records import LakeRecord


@dataclass(frozen=True)
class Survey:
    """All files of a lake, and all that its roots reference; `foreign` is not theirs."""

    listing: Dataset
    marks: Marks
    foreign: tuple[Foreign, ...] = ()


@dataclass
class Surveyor:
    """Lists and marks lakes on an engine, and keeps the time of each phase."""

    stores: Stores
    engine: SweepEngine
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    sources: Sources = root_sources

    def survey(
        self,
        lake: Lake,
        record: LakeRecord,
        address: str,
        lease: HeldLease,
        inventory: Inventory | None = None,
    ) -> Survey:
        """List a lake, or take an inventory in place of that, and then mark its roots.

        All is written below an address. `record` tells which earlier marks save work.
        """
        with self.phase("list"):
            listing, foreign = self.list_files(lake, f"{address}/listing", inventory)
        lease.check()
        with self.phase("mark"):
            marks = self._mark(lake, listing, record, f"{address}/marks")
        lease.check()
        return Survey(listing, marks, foreign)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Keep the seconds that a block takes."""
        start = self.clock.monotonic()
        yield
        self.seconds[name] = round(self.clock.monotonic() - start, 3)

    def list_files(
        self, lake: Lake, address: str, inventory: Inventory | None = None
    ) -> tuple[Dataset, tuple[Foreign, ...]]:
        """All files of a lake, and the folders that are of some format."""
        with showing(self.stores, address, self.progress, "listed") as shown:
            answers = self._gather(lake, address, inventory, shown.folder)
            parts = answers_of(answers, "part", Part)
            listing = commit_dataset(self.stores, address, parts, LISTING)
            shown.reach(listing.rows)
        return listing, formats_of(answers_of(answers, "sign", Sign))

    def _gather(
        self, lake: Lake, address: str, inventory: Inventory | None, counts: str | None
    ) -> pa.Table:
        if inventory is not None:
            read = InventoryStep(self.stores, address, lake.locations, counts)
            return self.engine.run(read, inventory.parts, ANSWERS)
        shares = cut_locations(self.stores, lake.locations, self.engine.parts)
        return self.engine.run(ListStep(self.stores, address, counts=counts), shares, ANSWERS)

    def _mark(self, lake: Lake, listing: Dataset, record: LakeRecord, address: str) -> Marks:
        sources = self.sources(self.stores, lake, files_of(self.stores, listing))
        with showing(self.stores, address, self.progress, "marked", unit="metadata files") as shown:
            cache = self.earlier(record)
            spec = MarkSpec(self.engine, self.stores, address, cache=cache, counts=shown.folder)
            marks = mark(spec, sources)
            shown.reach(marks.datasets["sources"].rows)
        return marks

    def earlier(self, record: LakeRecord) -> Marks | None:
        """The marks of the last plan; none where they are gone, or not what they were."""
        if record.marks is None:
            return None
        try:
            found = load_marks(self.stores, record.marks)
        except LakesweepError:
            return None
        hashes = {name: dataset.sha256 for name, dataset in found.datasets.items()}
        return found if hashes == record.mark_hashes else None


def files_of(stores: Stores, listing: Dataset) -> Callable[[], Iterator[pa.RecordBatch]]:
    """What gives the listed files, any number of times."""

    def files() -> Iterator[pa.RecordBatch]:
        return read_dataset(stores, listing)

    return files
