"""The columns that a caller selects, and where a schema has them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakesweep.avro.schema import (
    ArrayType,
    AvroKind,
    AvroSchema,
    AvroSchemaError,
    AvroType,
    LeafType,
    MapType,
    RecordField,
    RecordType,
    TypeReference,
    UnionType,
    is_empty,
)


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """A value to read from every record, under its name in the batches.

    `ids` are the field ids of the record fields that lead to it (Iceberg), `names` their names. If
    both are given, ids decide if the file's schema has any. Unions and arrays on the way are passed
    through; below an array the values of one record become a list.

    A column that the file's schema lacks is null in every row, or an error if it is `required`.
    `type` is the Arrow type that the caller expects: the column has it even if the file lacks the
    column, by Avro's own promotions (int to long and the like) or not at all.
    """

    name: str
    ids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    required: bool = False
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """The rest of the path to a column: by ids, or by names."""

    steps: tuple[int, ...] | tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.steps)

    def rest(self) -> Path:
        return Path(self.steps[1:])


@dataclass(frozen=True, slots=True)
class Shape:
    """What a column holds: values of a leaf type, or lists of them."""

    leaf: LeafType
    is_list: bool


def column_path(schema: AvroSchema, column: ProjectedColumn) -> Path:
    """The path to a column in this schema."""
    by_ids = bool(column.ids) and (schema.has_ids or not column.names)
    path = Path(column.ids if by_ids else column.names)
    if not path:
        raise ValueError(f"the column {column.name} has neither ids nor names")
    return path


def find_field(record: RecordType, path: Path) -> RecordField | None:
    """The field that the first step of the path names."""
    step = path.steps[0]
    found = [each for each in record.fields if step == _label(each, step)]
    if len(found) > 1:
        raise AvroSchemaError(f"the record {record.name!r} has the field {step!r} twice")
    return found[0] if found else None


def find_shape(node: AvroType, path: Path) -> Shape | None:
    """What is at the end of the path; None if the schema has no such column."""
    shapes = _shapes(node, path)
    values = {shape for shape in shapes if shape.leaf.kind is not AvroKind.NULL} or shapes
    if len(values) > 1:
        raise AvroSchemaError("it has several types")
    return next(iter(values), None)


def _label(each: RecordField, step: int | str) -> int | str | None:
    return each.name if isinstance(step, str) else each.field_id


def _shapes(node: AvroType, path: Path) -> set[Shape]:
    match node:
        case TypeReference(target=target):
            return _shapes(target, path)
        case UnionType(branches=branches):
            return set().union(*(_shapes(branch, path) for branch in branches))
        case ArrayType(items=items):
            return {_listed(shape, items) for shape in _shapes(items, path)}
        case LeafType():
            return set() if path else {Shape(node, is_list=False)}
    if not path:
        raise AvroSchemaError(f"it is a {'map' if isinstance(node, MapType) else 'record'}")
    found = find_field(node, path) if isinstance(node, RecordType) else None
    return _shapes(found.type, path.rest()) if found else set()


def _listed(shape: Shape, items: AvroType) -> Shape:
    if shape.is_list:
        raise AvroSchemaError("it is a list of lists")
    if is_empty(items):
        raise AvroSchemaError("it is a list of items without bytes")
    return Shape(shape.leaf, is_list=True)
