"""Our Spark data sources: access, partitions and errors, and two of the sources.

`lakesweep.listing` has stored files, listed by many tasks; `lakesweep.iceberg-files` has the files
that a table or view reaches.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakesweep.errors import UsageError
from lakesweep.iceberg.mark_levels import MANIFEST_LEVEL, UPPER_LEVELS, start_walk
from lakesweep.iceberg.table_identifier import IcebergTables
from lakesweep.marks.pointers import Pointer
from lakesweep.marks.unreadable import Strict
from lakesweep.marks.walk import Walk
from lakesweep.spark.error_translation import tagging_errors
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import freeze_loaded_objects, on_the_wire, to_spark, to_wire
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.locations import Piece, cut_locations, even_groups, list_pieces
from lakesweep.storage.stores import Keyring, Stores

Share = TypeVar("Share")
#: The columns of a listing, which does not know the kinds of files.
LISTED_SCHEMA = pa.schema([field for field in FILE_SCHEMA if field.name != "kind"])
#: What metadata says about a file; only its store knows when it was written.
REACHED_SCHEMA = pa.schema([FILE_SCHEMA.field(name) for name in ("path", "kind", "size_bytes")])


class ArrowDataSource(DataSource):
    """Base class of our data sources. `bind_access` sets `access`; the default is this process.

    Spark creates it in a process on the driver machine, asks it there for its schema and its
    partitions, and sends it to the executors.
    """

    access: ClassVar[ExecutorAccess | None] = None

    def schema(self) -> StructType:
        with tagging_errors():
            return to_spark(self.columns())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        with tagging_errors():
            return self.open()

    @abstractmethod
    def columns(self) -> pa.Schema:
        """The schema of the rows."""

    @abstractmethod
    def open(self) -> ArrowSourceReader[Any]:
        """The reader of the rows. Called on the driver machine."""

    @property
    def reach(self) -> ExecutorAccess:
        return self.access or ExecutorAccess()

    def whole(self, name: str, default: int) -> int:
        """An option that must be a positive whole number."""
        text = self.options.get(name, str(default))
        if not (text.isascii() and text.isdigit() and int(text)):
            raise UsageError(
                f"the option {name} must be a whole number, not {text!r}", hint="1, 32"
            )
        return int(text)

    def address(self) -> str:
        """The single address that was given to `load`."""
        found = self.options.get("path")
        if not found:
            raise UsageError(f"{self.name()} needs an address", hint=f"{_EXAMPLE}.load('s3://…')")
        return found


_EXAMPLE = "spark.read.format('lakesweep.…')"


class ArrowSourceReader(DataSourceReader, Generic[Share]):
    """Reads the rows of a source, one share per task."""

    def __init__(self, columns: pa.Schema) -> None:
        self._wire = on_the_wire(columns)

    @abstractmethod
    def shares(self) -> Sequence[Share]:
        """The shares, one per task. Called once, on the driver machine."""

    @abstractmethod
    def rows(self, share: Share) -> Iterator[pa.RecordBatch]:
        """The rows of a share. Called on an executor."""

    def partitions(self) -> Sequence[InputPartition]:
        with tagging_errors():
            # For an empty list Spark makes up a partition.
            return [InputPartition(share) for share in self.shares() or (None,)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with tagging_errors():
            if partition.value is not None:
                yield from to_wire(self.rows(cast("Share", partition.value)), self._wire)
        freeze_loaded_objects()


def bind_access(source: type[ArrowDataSource], access: ExecutorAccess) -> type[ArrowDataSource]:
    """The same source with an access of its own.

    A class created here is pickled by value, with the access inside; one that other processes can
    import would be pickled by name.
    """
    return type(source.__name__, (source,), {"access": access, "__doc__": source.__doc__})


def split_list(text: str) -> list[str]:
    """Several addresses in one option: a JSON list, or separated by `;`."""
    if not text.lstrip().startswith("["):
        return [part for part in text.split(";") if part]
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{text!r} is not a JSON list: {error}") from error
    return [str(item) for item in found]


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


class IcebergFilesSource(ArrowDataSource):
    """Every file that a table or view reaches, of every kind; shared files appear repeatedly.

    `load` takes the address of a metadata file, the folder of a table with a version hint, or
    `catalog.namespace.table` if the sources were registered with that catalog. The first file that
    cannot be read fails the job, because the rows so far are incomplete.
    """

    @classmethod
    def name(cls) -> str:
        return "lakesweep.iceberg-files"

    def columns(self) -> pa.Schema:
        return REACHED_SCHEMA

    def open(self) -> IcebergFilesReader:
        return IcebergFilesReader(self.reach, self.address(), self.whole("parts", self.reach.parts))


@dataclass(frozen=True)
class IcebergPartition:
    """Some manifests of a table, or files that are known already."""

    stores: Stores
    manifests: tuple[Pointer, ...] = ()
    files: tuple[pa.RecordBatch, ...] = ()


class IcebergFilesReader(ArrowSourceReader[IcebergPartition]):
    """Reads metadata and manifest lists when it plans, and manifests in tasks."""

    def __init__(self, access: ExecutorAccess, ref: str, parts: int) -> None:
        super().__init__(REACHED_SCHEMA)
        self._access = access
        self._ref = ref
        self._parts = parts

    def shares(self) -> Sequence[IcebergPartition]:
        target = IcebergTables(self._access.stores, self._access.catalogs).find(self._ref)
        stores = target.stores
        walk = start_walk(stores, target.metadata, Strict())
        known = IcebergPartition(stores, files=tuple(walk.files(UPPER_LEVELS)))
        manifests = list(walk.take_pointers(MANIFEST_LEVEL.kind))
        groups = even_groups(manifests, self._parts)
        return [known, *(IcebergPartition(stores, group) for group in groups)]

    def rows(self, share: IcebergPartition) -> Iterator[pa.RecordBatch]:
        yield from share.files
        self._access.prepare()
        walk = Walk(Keyring(share.stores), Strict())
        yield from walk.read(MANIFEST_LEVEL.level(walk.keyring), share.manifests)
