"""Avro schemas, parsed from the JSON of a file's header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class AvroSchemaError(ValueError):
    """A schema is invalid. The text says why."""


class AvroKind(StrEnum):
    """The types without components."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"


@dataclass(frozen=True, slots=True)
class LeafType:
    """A type without components; `size` is that of a fixed, `symbols` are those of an enum."""

    kind: AvroKind
    size: int = 0
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record; `field_id` is the id that Iceberg gives it."""

    name: str
    type: AvroType
    field_id: int | None


@dataclass(slots=True)
class RecordType:
    """Fields in byte order. They are filled in late, as they may refer to the record."""

    name: str
    fields: tuple[RecordField, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionType:
    """One of several types, selected by index."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Items of one type."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class MapType:
    """Values of one type under string keys."""

    values: AvroType


@dataclass(frozen=True, slots=True)
class TypeReference:
    """A named type that was defined earlier in the schema."""

    target: LeafType | RecordType


AvroType = LeafType | RecordType | UnionType | ArrayType | MapType | TypeReference


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The type of a file's rows; `has_ids` says that fields carry ids."""

    root: AvroType
    has_ids: bool


def parse_json(source: bytes) -> Any:
    """Read the text of a schema."""
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError(f"the schema is not JSON: {error}") from None


def parse_schema(source: bytes) -> AvroSchema:
    """Parse the text of a schema into its types."""
    parser = _Parser()
    return AvroSchema(parser.parse(parse_json(source), ""), parser.has_ids)


@dataclass(slots=True)
class _Parser:
    named: dict[str, LeafType | RecordType] = field(default_factory=dict)
    has_ids: bool = False

    def parse(self, source: object, namespace: str) -> AvroType:
        if isinstance(source, str):
            return self._by_name(source, namespace)
        if isinstance(source, list):
            return UnionType(tuple(self.parse(branch, namespace) for branch in source))
        if isinstance(source, dict):
            return self._complex(source, namespace)
        raise AvroSchemaError(f"{source!r:.80} is not a type")

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        for full in (_full_name(name, namespace), name):
            if full in self.named:
                return TypeReference(self.named[full])
        raise AvroSchemaError(f"the type {name!r} is not defined")

    def _complex(self, source: Mapping[str, Any], namespace: str) -> AvroType:
        match source.get("type"):
            case "record" | "error":
                return self._record(source, namespace)
            case "array":
                return ArrayType(self.parse(source.get("items"), namespace))
            case "map":
                return MapType(self.parse(source.get("values"), namespace))
            case "enum":
                return self._define(
                    LeafType(AvroKind.ENUM, symbols=_symbols(source)), source, namespace
                )
            case "fixed":
                return self._define(LeafType(AvroKind.FIXED, size=_size(source)), source, namespace)
            case other:
                return self.parse(other, namespace)

    def _define(self, leaf: LeafType, source: Mapping[str, Any], namespace: str) -> LeafType:
        self._name(leaf, source, namespace)
        return leaf

    def _name(self, node: LeafType | RecordType, source: Mapping[str, Any], namespace: str) -> str:
        name = source.get("name")
        if not isinstance(name, str):
            raise AvroSchemaError(f"a type {source.get('type')} has no name")
        full = _full_name(name, source.get("namespace") or namespace)
        if full in self.named:
            raise AvroSchemaError(f"the type {full!r} is defined twice")
        self.named[full] = node
        return full

    def _record(self, source: Mapping[str, Any], namespace: str) -> RecordType:
        record = RecordType(str(source.get("name")))
        full = self._name(record, source, namespace)
        fields = source.get("fields")
        if not isinstance(fields, list):
            raise AvroSchemaError(f"the record {full!r} has no fields")
        inner = full.rpartition(".")[0]
        record.fields = tuple(self._field(each, inner) for each in fields)
        return record

    def _field(self, source: object, namespace: str) -> RecordField:
        if not isinstance(source, dict) or not isinstance(source.get("name"), str):
            raise AvroSchemaError("a field has no name")
        field_id = source.get("field-id")
        if not isinstance(field_id, int):
            field_id = None
        self.has_ids = self.has_ids or field_id is not None
        return RecordField(source["name"], self.parse(source.get("type"), namespace), field_id)


_PRIMITIVES = {
    kind.value: LeafType(kind) for kind in AvroKind if kind not in (AvroKind.FIXED, AvroKind.ENUM)
}


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _symbols(source: Mapping[str, Any]) -> tuple[str, ...]:
    symbols = source.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
        raise AvroSchemaError("an enum has no symbols")
    return tuple(symbols)


def _size(source: Mapping[str, Any]) -> int:
    size = source.get("size")
    if not isinstance(size, int) or not 0 <= size <= _LARGEST_FIXED:
        raise AvroSchemaError(f"a fixed has the size {size!r:.80}")
    return size


_LARGEST_FIXED = 2**30


def is_empty(node: AvroType) -> bool:
    """Whether values of a type have no bytes at all."""
    return _is_empty(node, {})


def _is_empty(node: AvroType, known: dict[int, bool]) -> bool:
    match node:
        case LeafType(kind=AvroKind.NULL):
            return True
        case LeafType(kind=AvroKind.FIXED, size=size):
            return size == 0
        case TypeReference(target=target):
            return _is_empty(target, known)
        case RecordType():
            # A record inside itself, without a choice in between, has no values: any answer is
            # right.
            if id(node) not in known:
                known[id(node)] = True
                known[id(node)] = all(_is_empty(each.type, known) for each in node.fields)
            return known[id(node)]
    return False
