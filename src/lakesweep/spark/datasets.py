"""Datasets that executors write and read; see `storage.datasets` for the format."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakesweep.config.search import is_closed
from lakesweep.errors import UsageError
from lakesweep.spark.data_source import ArrowDataSource, ArrowSourceReader
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import map_batches, map_items, to_arrow, to_spark
from lakesweep.storage.address import identity
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import check_parts, load_dataset, read_part
from lakesweep.storage.datasets.writer import PART_SCHEMA, commit_dataset, write_parts

#: A folder name that Spark takes literally; other characters may form patterns.
_PLAIN_FOLDER = re.compile(r"/[A-Za-z0-9._/=@+-]*")


def write(
    frame: DataFrame, address: str, access: ExecutorAccess, schema: pa.Schema | None = None
) -> Dataset:
    """Write all rows of a DataFrame as the dataset of an address.

    Each task writes its own parts and returns their names. A task that fails or runs twice leaves
    parts that nothing names: Spark takes one result per task.
    """
    schema = to_arrow(frame.schema) if schema is None else schema
    most = access.most_tasks
    parts = map_batches(
        frame,
        _write_parts,
        PART_SCHEMA,
        most_tasks=most,
        access=access,
        address=address,
        schema=schema,
    )
    rows = access.collect(parts)
    stored = [Part(row["name"], row["rows"], row["bytes"], row["sha256"]) for row in rows]
    return commit_dataset(access.stores, address, stored, schema)


def _write_parts(
    batches: Iterator[pa.RecordBatch], access: ExecutorAccess, address: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    return write_parts(access.stores, address, schema, batches)


def read(
    spark: SparkSession,
    dataset: Dataset,
    access: ExecutorAccess,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a dataset, with all or some of its columns.

    Spark itself reads a local folder that no other user can change, after a comparison of part
    sizes; it verifies the checksum of each page. Elsewhere our own tasks read, and verify the hash
    of each part: what others can write may be forged, checksums included. They are not a data
    source, because for each of those Spark starts Python on the driver several times.
    """
    chosen = list(columns or dataset.schema.names)
    folder = identity(dataset.address)
    if dataset.parts and _PLAIN_FOLDER.fullmatch(folder) and is_closed(Path(folder)):
        check_parts(access.stores, dataset)
        return _read_natively(spark, dataset, folder).select(*chosen)
    shares = _balanced(dataset.parts, access.parts)
    schema = pa.schema([dataset.schema.field(name) for name in chosen])
    bare = replace(dataset, parts=())  # each task has its own
    return map_items(
        spark,
        shares,
        _read_share,
        schema,
        most_tasks=access.most_tasks,
        access=access,
        dataset=bare,
        names=chosen,
    )


def _read_share(
    share: Sequence[Part], access: ExecutorAccess, dataset: Dataset, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for part in share:
        yield from read_part(access.stores, dataset, part, names)


def _read_natively(spark: SparkSession, dataset: Dataset, folder: str) -> DataFrame:
    files = [f"file://{folder}{part.name}" for part in dataset.parts]
    reader = spark.read.schema(to_spark(dataset.schema))
    return reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*files)


class DatasetSource(ArrowDataSource):
    """The rows of the dataset at an address. Option `columns`: some of them, separated by `;`."""

    @classmethod
    def name(cls) -> str:
        return "lakesweep.dataset"

    def columns(self) -> pa.Schema:
        schema = self._dataset().schema
        named = [name for name in self.options.get("columns", "").split(";") if name]
        if unknown := [name for name in named if name not in schema.names]:
            raise UsageError(f"{self.address()} has no column {unknown[0]}")
        return pa.schema([schema.field(name) for name in named or schema.names])

    def open(self) -> DatasetReader:
        return DatasetReader(self.reach, self._dataset(), self.columns())

    def _dataset(self) -> Dataset:
        return load_dataset(self.reach.stores, self.address())


class DatasetReader(ArrowSourceReader[tuple[Part, ...]]):
    """Reads parts of a dataset."""

    def __init__(self, access: ExecutorAccess, dataset: Dataset, columns: pa.Schema) -> None:
        super().__init__(columns)
        self._access = access
        self._dataset = dataset
        self._names = columns.names

    def shares(self) -> Sequence[tuple[Part, ...]]:
        return _balanced(self._dataset.parts, self._access.parts)

    def rows(self, share: tuple[Part, ...]) -> Iterator[pa.RecordBatch]:
        return _read_share(share, self._access, self._dataset, self._names)


def _balanced(parts: Sequence[Part], groups: int) -> list[tuple[Part, ...]]:
    """The parts in at most `groups` groups of similar size, largest part first."""
    heap: list[tuple[int, int, list[Part]]] = [(0, number, []) for number in range(groups)]
    for part in sorted(parts, key=lambda part: part.size_bytes, reverse=True):
        size, number, group = heap[0]
        group.append(part)
        heapq.heapreplace(heap, (size + part.size_bytes, number, group))
    return [tuple(group) for _, _, group in heap if group]
