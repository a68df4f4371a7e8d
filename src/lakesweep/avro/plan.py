"""How one file's schema yields the chosen columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.gather import Rows
from lakesweep.avro.program import compile_program
from lakesweep.avro.projection import Column, Path, Shape, column_path, find_shape
from lakesweep.avro.room import arrow_type
from lakesweep.avro.schema import Schema, SchemaError, is_empty, parse_schema

# Rows without any bytes cost nothing to claim; a block may claim so many and no more.
_SPARE_ROWS = 2**20

_PROMOTIONS = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The programme, the shapes of its slots, and the slot of each column, None where it has none.

    `spare_rows` is how many rows a block may claim without a byte for each.
    """

    program: npt.NDArray[np.int64]
    shapes: tuple[Shape, ...]
    slots: tuple[int | None, ...]
    schema: pa.Schema
    spare_rows: int

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Put rows into the columns that the caller asked for; ArrowInvalid where text is none."""
        arrays = [
            pa.nulls(rows.count, field.type) if slot is None else rows.slots[slot].cast(field.type)
            for slot, field in zip(self.slots, self.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)


@lru_cache(maxsize=256)
def make_plan(source: bytes, columns: tuple[Column, ...]) -> Plan:
    """Find the columns in a schema, and compile the programme that keeps them.

    Plans are remembered, as the files of one table have the same schema. Raises SchemaError.
    """
    if not columns:
        raise ValueError("no columns are chosen")
    try:
        return _make_plan(parse_schema(source), columns)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


def _make_plan(schema: Schema, columns: tuple[Column, ...]) -> Plan:
    paths = [column_path(schema, column) for column in columns]
    shapes = [_find(schema, *each) for each in zip(columns, paths, strict=True)]
    kept = [(shape, path) for shape, path in zip(shapes, paths, strict=True) if shape is not None]
    numbers = iter(range(len(kept)))
    return Plan(
        program=compile_program(schema, kept),
        shapes=tuple(shape for shape, _ in kept),
        slots=tuple(None if shape is None else next(numbers) for shape in shapes),
        schema=pa.schema([_field(*each) for each in zip(columns, shapes, strict=True)]),
        spare_rows=_SPARE_ROWS if is_empty(schema.root) else 0,
    )


def _find(schema: Schema, column: Column, path: Path) -> Shape | None:
    try:
        shape = find_shape(schema.root, path)
    except SchemaError as error:
        raise SchemaError(f"the column {column.name} cannot be read: {error}") from None
    if shape is None and column.required:
        raise SchemaError(f"the column {column.name} is missing")
    return shape


def _field(column: Column, shape: Shape | None) -> pa.Field:
    found = pa.null() if shape is None else arrow_type(shape)
    wanted = found if column.type is None else column.type
    if not _promotes(found, wanted):
        raise SchemaError(f"the column {column.name} is {found}, not {wanted}")
    return pa.field(column.name, wanted)


def _promotes(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _promotes(found.value_type, wanted.value_type)
    return found == wanted or pa.types.is_null(found) or (found, wanted) in _PROMOTIONS
