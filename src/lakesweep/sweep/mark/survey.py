"""List a lake, then mark its roots: how plans and checks start.

The order must not change. The listing is complete and stored before the first root is read,
so a file that becomes referenced while it is being listed is seen as referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.config import IcebergScanRoot
from lakesweep.errors import IncompleteError, LakesweepError
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.task_progress import TaskCounter, show_progress
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.listing.inventory_rows import read_inventory_part
from lakesweep.storage.listing.locations import Piece, cut_locations, list_pieces
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.mark.earlier_marks import far_roots, vouched_marks
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks, UnreadableSource
from lakesweep.sweep.paths.folder_map import claimed_folder
from lakesweep.sweep.paths.foreign_formats import (
    ForeignFolder,
    FormatSign,
    FormatSigns,
    foreign_folders,
)
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.runs.records import LakeRecord
    from lakesweep.storage.listing.inventory import Inventory, InventoryPart
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake


@dataclass(frozen=True)
class LakeSurvey:
    """All files of a lake, and everything its roots reference; `foreign` belongs to others.

    Of `unlisted` locations some files may be missing from the listing.
    """

    listing: Dataset
    marks: Marks
    foreign: tuple[ForeignFolder, ...] = ()
    unlisted: tuple[UnlistedLocation, ...] = ()


class UnlistedLocation(msgspec.Struct, frozen=True):
    """A location that could not be listed, or only in part, and why."""

    location: str
    reason: str


@dataclass(frozen=True)
class LakeListing:
    """The files of a lake, its folders of foreign formats, and what could not be listed."""

    files: Dataset
    foreign: tuple[ForeignFolder, ...]
    unlisted: tuple[UnlistedLocation, ...]


@dataclass
class Surveyor:
    """Lists and marks lakes on an engine, and records the time of each phase."""

    stores: Stores
    engine: SweepEngine
    clock: Clock
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)
    sources: RootSourceFactory = root_sources
    #: The newest marks of some lakes, as far as the store vouches for them.
    earlier_marks: Callable[[], Sequence[Marks]] = tuple

    def survey(
        self,
        lake: Lake,
        record: LakeRecord,
        address: str,
        lease: HeldLease,
        inventory: Inventory | None = None,
    ) -> LakeSurvey:
        """List a lake, or use an inventory instead, and then mark its roots.

        Everything is written below an address. `record` says which earlier marks save work.
        """
        with self.phase("list"):
            listed = self._list(lake, f"{address}/listing", inventory, record.listed)
        # A run that lost its lease must not go on to mark or judge: another one may be deleting.
        lease.check()
        with self.phase("mark"):
            marks = self._mark(lake, listed.files, record, f"{address}/marks")
        lease.check()
        marks = replace(marks, unknown=(*marks.unknown, *_blind_scans(lake, listed.unlisted)))
        return LakeSurvey(listed.files, marks, listed.foreign, listed.unlisted)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record the seconds that a block takes."""
        start = self.clock.monotonic()
        yield
        self.seconds[name] = round(self.clock.monotonic() - start, 3)

    def list_files(
        self, lake: Lake, address: str, inventory: Inventory | None = None
    ) -> tuple[Dataset, tuple[ForeignFolder, ...]]:
        """All files of a lake, and its folders of foreign formats.

        IncompleteError if a location cannot be listed.
        """
        listed = self._list(lake, address, inventory)
        for each in listed.unlisted:
            raise IncompleteError(f"{each.location} cannot be listed: {each.reason}")
        return listed.files, listed.foreign

    def _list(
        self, lake: Lake, address: str, inventory: Inventory | None, expected: int = 0
    ) -> LakeListing:
        """List a lake; the last plan saw as many files as are expected now."""
        total = expected or None
        with show_progress(self.stores, address, self.progress, "listed", total=total) as shown:
            answers = self._gather(lake, address, inventory, shown.folder)
            parts = results_of(answers, "part", Part)
            listing = commit_dataset(self.stores, address, parts, LISTING)
            shown.reach(listing.rows)
        failed = {each.location: each for each in results_of(answers, "unlisted", UnlistedLocation)}
        self._check_some_listed(lake, failed)
        foreign = foreign_folders(results_of(answers, "sign", FormatSign))
        return LakeListing(listing, foreign, tuple(failed.values()))

    def _check_some_listed(self, lake: Lake, failed: Mapping[str, UnlistedLocation]) -> None:
        """The error of a location if none could be listed: then there is nothing to plan."""
        if not failed:
            return
        pieces = (piece for some in cut_locations(self.stores, lake.locations, 1) for piece in some)
        if any(piece.location not in failed for piece in pieces):
            return
        first = min(failed)
        for _ in list_pieces(self.stores, [Piece(first)]):
            pass
        raise IncompleteError(f"{first} cannot be listed: {failed[first].reason}")

    def _gather(
        self, lake: Lake, address: str, inventory: Inventory | None, counts: str | None
    ) -> pa.Table:
        if inventory is not None:
            read = InventoryStep(self.stores, address, lake.locations, counts)
            return self.engine.run(read, inventory.parts, TASK_RESULTS)
        shares = cut_locations(self.stores, lake.locations, self.engine.parts)
        return self.engine.run(ListStep(self.stores, address, counts=counts), shares, TASK_RESULTS)

    def _mark(self, lake: Lake, listing: Dataset, record: LakeRecord, address: str) -> Marks:
        # Sources are created only now, after the listing is complete; see the module.
        files = files_of(self.stores, listing)
        sources = self.sources(self.stores, lake, files)
        earlier = self.earlier_marks() if lake.neighbours else ()
        far = far_roots(self.stores, lake, earlier)
        # Another lake's marks have read some of the same manifests, or all.
        of_lake = (marks for marks in earlier if marks.address == record.marks)
        before = next(of_lake, None) or self.earlier(record)
        cache = before or next(iter(earlier), None)
        with show_progress(
            self.stores,
            address,
            self.progress,
            "marked",
            total=None if before is None else before.datasets["sources"].rows,
            unit="metadata files",
        ) as shown:
            spec = MarkSpec(self.engine, self.stores, address, cache=cache, counts=shown.folder)
            marks = mark(spec, sources, far)
            shown.reach(marks.datasets["sources"].rows)
        return marks

    def earlier(self, record: LakeRecord) -> Marks | None:
        """The marks of the last plan; None if they are gone or changed."""
        return vouched_marks(self.stores, record)


def _blind_scans(lake: Lake, unlisted: Sequence[UnlistedLocation]) -> Iterator[UnreadableSource]:
    """Scans that could not see all of their files: tables that they miss may reference any file."""
    for root in lake.section.roots:
        if isinstance(root, IcebergScanRoot):
            path = claimed_folder(root.path)
            for each in unlisted:
                folder = claimed_folder(each.location)
                if folder.startswith(path) or path.startswith(folder):
                    yield UnreadableSource(f"scan of {root.path}", each.reason)


def files_of(stores: Stores, listing: Dataset) -> Callable[[], Iterator[pa.RecordBatch]]:
    """A function that returns the listed files, any number of times."""

    def files() -> Iterator[pa.RecordBatch]:
        return read_dataset(stores, listing)

    return files


@dataclass(frozen=True)
class ListStep:
    """Lists pieces of locations into parts of a dataset of LISTING."""

    stores: Stores
    address: str
    workers: int = 8
    counts: str | None = None

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, LISTING)
        counter = TaskCounter(self.stores, self.counts)
        signs = FormatSigns()
        unlisted = []
        for location, some in groupby(pieces, lambda piece: piece.location):
            try:
                for batch in list_pieces(self.stores, list(some), workers=self.workers):
                    writer.add(listing_rows(batch))
                    signs.add(batch["path"])
                    counter.add(batch.num_rows)
            except LakesweepError as error:
                # Only this location is in doubt: what was listed of it is kept.
                unlisted.append(UnlistedLocation(location, error.message))
        yield task_result("part", writer.finish())
        yield task_result("sign", signs.found())
        yield task_result("unlisted", unlisted)


@dataclass(frozen=True)
class InventoryStep:
    """Reads a data file of an inventory into parts of a dataset of LISTING.

    Files outside of the locations are left out.
    """

    stores: Stores
    address: str
    locations: Sequence[str]
    counts: str | None = None

    def __call__(self, part: InventoryPart) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, LISTING)
        counter = TaskCounter(self.stores, self.counts)
        signs = FormatSigns()
        for batch in read_inventory_part(self.stores, part, self.locations):
            writer.add(listing_rows(batch))
            signs.add(batch["path"])
            counter.add(batch.num_rows)
        yield task_result("part", writer.finish())
        yield task_result("sign", signs.found())


def listing_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Files (FILE_SCHEMA) as rows of LISTING."""
    columns = [batch[name] for name in ("path", "size_bytes", "modified", "etag")]
    return pa.RecordBatch.from_arrays(
        [*columns, *hash_columns(file_hashes(batch["path"]))], schema=LISTING
    )
