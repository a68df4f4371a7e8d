"""The base of our Spark data sources: access, partitions and errors."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakesweep.errors import UsageError
from lakesweep.spark.error_translation import tagging_errors
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import freeze_loaded_objects, on_the_wire, to_spark, to_wire

Share = TypeVar("Share")


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
    except json.JSONDecodeError as error:
        raise UsageError(f"{text!r} is not a JSON list: {error}") from error
    return [str(item) for item in found]
