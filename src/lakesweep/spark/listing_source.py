"""The data source `lakesweep.listing`: stored files, listed by many tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakesweep.errors import UsageError
from lakesweep.spark.data_source import ArrowDataSource, ArrowSourceReader, split_list
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.locations import Piece, cut_locations, list_pieces

#: The columns of a listing, which does not know the kinds of files.
LISTED_SCHEMA = pa.schema([field for field in FILE_SCHEMA if field.name != "kind"])


class ListingSource(ArrowDataSource):
    """All files at and below some locations, each once.

    `load("s3://…")`, or the option `locations` with several, as JSON or separated by `;`. `parts`
    is the maximum number of tasks, `workers` the number of concurrent requests of each.
    """

    @classmethod
    def name(cls) -> str:
        return "lakesweep.listing"

    def columns(self) -> pa.Schema:
        return LISTED_SCHEMA

    def open(self) -> ListingReader:
        access = self.reach
        parts, workers = self.whole("parts", access.parts), self.whole("workers", 8)
        return ListingReader(access, self._locations(), parts, workers)

    def _locations(self) -> list[str]:
        # Spark passes a list that was given to `load` as `paths`.
        several = self.options.get("locations") or self.options.get("paths")
        found = split_list(several) if several else [self.address()]
        if not found:
            raise UsageError("lakesweep.listing got an empty list of locations")
        return found


class ListingReader(ArrowSourceReader[tuple[Piece, ...]]):
    """Lists pieces of locations."""

    def __init__(
        self, access: ExecutorAccess, locations: Sequence[str], parts: int, workers: int
    ) -> None:
        super().__init__(LISTED_SCHEMA)
        self._access = access
        self._locations = tuple(locations)
        self._parts = parts
        self._workers = workers

    def shares(self) -> Sequence[tuple[Piece, ...]]:
        return cut_locations(self._access.stores, self._locations, self._parts)

    def rows(self, share: tuple[Piece, ...]) -> Iterator[pa.RecordBatch]:
        return list_pieces(self._access.stores, share, workers=self._workers)
