"""Avro schemas, from the JSON of a file's header to a few plain types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SchemaError(ValueError):
    """A schema is not what it should be. The text says why."""


class Kind(StrEnum):
    """The types without parts."""

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
class Leaf:
    """A type without parts; `size` is that of a fixed, `symbols` are those of an enum."""

    kind: Kind
    size: int = 0
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record; `field_id` is the id that Iceberg gives it."""

    name: str
    type: Node
    field_id: int | None


@dataclass(slots=True)
class Record:
    """Fields in the order of their bytes. They are filled in late, as they may name the record."""

    name: str
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, told by its place."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: Node


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type under string keys."""

    values: Node


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type that was defined earlier in the schema."""

    target: Leaf | Record


Node = Leaf | Record | Union | Array | Map | Reference


@dataclass(frozen=True, slots=True)
class Schema:
    """The type of a file's rows; `has_ids` says that fields carry ids."""

    root: Node
    has_ids: bool


def parse_json(source: bytes) -> Any:
    """Read the text of a schema."""
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def parse_schema(source: bytes) -> Schema:
    """Read the text of a schema into its types."""
    parser = _Parser()
    return Schema(parser.parse(parse_json(source), ""), parser.has_ids)


@dataclass(slots=True)
class _Parser:
    named: dict[str, Leaf | Record] = field(default_factory=dict)
    has_ids: bool = False

    def parse(self, source: object, namespace: str) -> Node:
        if isinstance(source, str):
            return self._by_name(source, namespace)
        if isinstance(source, list):
            return Union(tuple(self.parse(branch, namespace) for branch in source))
        if isinstance(source, dict):
            return self._complex(source, namespace)
        raise SchemaError(f"{source!r:.80} is not a type")

    def _by_name(self, name: str, namespace: str) -> Node:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        for full in (_full_name(name, namespace), name):
            if full in self.named:
                return Reference(self.named[full])
        raise SchemaError(f"the type {name!r} is not defined")

    def _complex(self, source: Mapping[str, Any], namespace: str) -> Node:
        match source.get("type"):
            case "record" | "error":
                return self._record(source, namespace)
            case "array":
                return Array(self.parse(source.get("items"), namespace))
            case "map":
                return Map(self.parse(source.get("values"), namespace))
            case "enum":
                return self._define(Leaf(Kind.ENUM, symbols=_symbols(source)), source, namespace)
            case "fixed":
                return self._define(Leaf(Kind.FIXED, size=_size(source)), source, namespace)
            case other:
                return self.parse(other, namespace)

    def _define(self, leaf: Leaf, source: Mapping[str, Any], namespace: str) -> Leaf:
        self._name(leaf, source, namespace)
        return leaf

    def _name(self, node: Leaf | Record, source: Mapping[str, Any], namespace: str) -> str:
        name = source.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"a type {source.get('type')} has no name")
        full = _full_name(name, source.get("namespace") or namespace)
        if full in self.named:
            raise SchemaError(f"the type {full!r} is defined twice")
        self.named[full] = node
        return full

    def _record(self, source: Mapping[str, Any], namespace: str) -> Record:
        record = Record(str(source.get("name")))
        full = self._name(record, source, namespace)
        fields = source.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"the record {full!r} has no fields")
        inner = full.rpartition(".")[0]
        record.fields = tuple(self._field(each, inner) for each in fields)
        return record

    def _field(self, source: object, namespace: str) -> Field:
        if not isinstance(source, dict) or not isinstance(source.get("name"), str):
            raise SchemaError("a field has no name")
        field_id = source.get("field-id")
        if not isinstance(field_id, int):
            field_id = None
        self.has_ids = self.has_ids or field_id is not None
        return Field(source["name"], self.parse(source.get("type"), namespace), field_id)


_PRIMITIVES = {kind.value: Leaf(kind) for kind in Kind if kind not in (Kind.FIXED, Kind.ENUM)}


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _symbols(source: Mapping[str, Any]) -> tuple[str, ...]:
    symbols = source.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
        raise SchemaError("an enum has no symbols")
    return tuple(symbols)


def _size(source: Mapping[str, Any]) -> int:
    size = source.get("size")
    if not isinstance(size, int) or not 0 <= size <= _LARGEST_FIXED:
        raise SchemaError(f"a fixed has the size {size!r:.80}")
    return size


_LARGEST_FIXED = 2**30


def is_empty(node: Node) -> bool:
    """Whether values of a type have no bytes at all."""
    return _is_empty(node, {})


def _is_empty(node: Node, known: dict[int, bool]) -> bool:
    match node:
        case Leaf(kind=Kind.NULL):
            return True
        case Leaf(kind=Kind.FIXED, size=size):
            return size == 0
        case Reference(target=target):
            return _is_empty(target, known)
        case Record():
            # A record inside itself, with no choice between, has no values: any answer will do.
            if id(node) not in known:
                known[id(node)] = True
                known[id(node)] = all(_is_empty(each.type, known) for each in node.fields)
            return known[id(node)]
    return False
