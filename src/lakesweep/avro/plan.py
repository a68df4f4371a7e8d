"""How one file's schema yields the chosen columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.gather import Rows
from lakesweep.avro.program import compile_program
from lakesweep.avro.projection import Column, Path, Shape, column_path, find_shape
from lakesweep.avro.room import arrow_type
from lakesweep.avro.schema import Schema, SchemaError, is_empty, parse_schema
from lakesweep.errors import DamagedError

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

    path: str
    program: npt.NDArray[np.int64]
    shapes: tuple[Shape, ...]
    slots: tuple[int | None, ...]
    schema: pa.Schema
    spare_rows: int

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Put rows into the columns that the caller asked for."""
        arrays = [
            pa.nulls(rows.count, field.type) if slot is None else rows.slots[slot]
            for slot, field in zip(self.slots, self.schema, strict=True)
        ]
        try:
            casts = [
                array.cast(field.type) for array, field in zip(arrays, self.schema, strict=True)
            ]
        except pa.ArrowInvalid:
            raise DamagedError(self.path, "a string is not UTF-8") from None
        return pa.record_batch(casts, schema=self.schema)


def make_plan(path: str, source: object, columns: Sequence[Column]) -> Plan:
    """Find the columns in the schema of a header, and compile the programme that keeps them."""
    if not columns:
        raise ValueError("no columns are chosen")
    try:
        schema = parse_schema(source)
        paths = [column_path(schema, column) for column in columns]
        shapes = [
            _find(path, schema, column, way) for column, way in zip(columns, paths, strict=True)
        ]
        return _compile(path, schema, columns, paths, shapes)
    except SchemaError as error:
        raise DamagedError(path, f"the header's schema is wrong: {error}") from None
    except RecursionError:
        raise DamagedError(path, "the header's schema is nested too deeply") from None


def _compile(
    path: str,
    schema: Schema,
    columns: Sequence[Column],
    paths: Sequence[Path],
    shapes: Sequence[Shape | None],
) -> Plan:
    kept = [(shape, way) for shape, way in zip(shapes, paths, strict=True) if shape is not None]
    numbers = iter(range(len(kept)))
    return Plan(
        path=path,
        program=compile_program(schema, kept),
        shapes=tuple(shape for shape, _ in kept),
        slots=tuple(None if shape is None else next(numbers) for shape in shapes),
        schema=pa.schema(
            [_field(path, *each) for each in zip(columns, shapes, strict=True)]
        ),
        spare_rows=_SPARE_ROWS if is_empty(schema.root) else 0,
    )


def _find(path: str, schema: Schema, column: Column, way: Path) -> Shape | None:
    try:
        shape = find_shape(schema.root, way)
    except SchemaError as error:
        raise DamagedError(path, f"the column {column.name} cannot be read: {error}") from None
    if shape is None and column.required:
        raise DamagedError(path, f"the column {column.name} is missing")
    return shape


def _field(path: str, column: Column, shape: Shape | None) -> pa.Field:
    found = pa.null() if shape is None else arrow_type(shape)
    wanted = found if column.type is None else column.type
    if not _promotes(found, wanted):
        raise DamagedError(path, f"the column {column.name} is {found}, not {wanted}")
    return pa.field(column.name, wanted)


def _promotes(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _promotes(found.value_type, wanted.value_type)
    return found == wanted or pa.types.is_null(found) or (found, wanted) in _PROMOTIONS
