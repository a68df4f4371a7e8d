"""Random schemas, data and columns, against fastavro's reading of the same file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.avro import ProjectedColumn
from lakesweep.errors import DamagedError
from tests.avro_files import CODECS, SYNC, file_of, rows, write_avro
from tests.random_tests import examples

Draw = Any
Path = tuple[str, ...]

_NAMES = ("path", "_", "a1", "_x23field", "type", "A_b_C_9")
_LOGICAL = {
    "int": ["date", "time-millis"],
    "long": ["timestamp-millis", "timestamp-micros", "time-micros", "local-timestamp-millis"],
    "bytes": ["decimal"],
    "string": ["uuid"],
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=150),
    "string": st.text(max_size=70),
}


class _Schemas:
    """Draws a schema; fields have names of their own, so that a path names one field at most."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.named: dict[str, Any] = {}
        self.open: list[str] = []
        self.fields = 0

    def record(self, depth: int) -> dict[str, Any]:
        name = f"r{len(self.named)}"
        schema: dict[str, Any] = {"type": "record", "name": name, "fields": []}
        self.named[name] = schema
        self.open.append(name)
        for _ in range(self.draw(st.integers(0 if depth else 1, 4))):
            self.fields += 1
            field = f"{self.draw(st.sampled_from(_NAMES))}{self.fields}"
            schema["fields"].append({"name": field, "type": self.node(depth + 1)})
        self.open.remove(name)
        return schema

    def node(self, depth: int, *, in_union: bool = False) -> Any:
        kinds = [self._leaf, self._leaf, self._fixed, self._enum, self._named]
        if depth < 4:
            kinds += [self.record, self._array, self._map, self._pairs, self._pairs]
            kinds += [] if in_union else [self._nullable, self._nullable, self._union, self._again]
        return self.draw(st.sampled_from(kinds))(depth)

    def _leaf(self, _depth: int) -> Any:
        kind = self.draw(st.sampled_from(sorted(_VALUES)))
        logical = self.draw(st.sampled_from([None, *_LOGICAL.get(kind, [])]))
        if logical is None:
            return kind
        return {"type": kind, "logicalType": logical, "precision": 9, "scale": 2}

    def _fixed(self, _depth: int) -> Any:
        return self._define({"type": "fixed", "size": self.draw(st.integers(1, 20))}, "f")

    def _enum(self, _depth: int) -> Any:
        symbols = [f"S{i}" for i in range(self.draw(st.integers(1, 70)))]
        return self._define({"type": "enum", "symbols": symbols}, "e")

    def _define(self, schema: dict[str, Any], prefix: str) -> dict[str, Any]:
        schema["name"] = f"{prefix}{len(self.named)}"
        self.named[schema["name"]] = schema
        return schema

    def _named(self, depth: int) -> Any:
        closed = [name for name in self.named if name not in self.open]
        return self.draw(st.sampled_from(closed)) if closed else self._leaf(depth)

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.node(depth + 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.node(depth + 1)}

    def _pairs(self, _depth: int) -> Any:
        """What Iceberg writes for a map."""
        pair = self._define({"type": "record", "fields": []}, "p")
        value = self.draw(st.sampled_from(["long", "bytes", "double", "string"]))
        pair["fields"] += [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
        return {"type": "array", "items": pair, "logicalType": "map"}

    def _nullable(self, depth: int) -> Any:
        other = self.node(depth + 1, in_union=True)
        return self.draw(st.permutations([other, "null"])) if other != "null" else other

    def _union(self, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for _ in range(self.draw(st.integers(1, 4))):
            before = dict(self.named)
            branch = self.node(depth + 1, in_union=True)
            label = branch.get("name", branch["type"]) if isinstance(branch, dict) else branch
            if label in branches:
                self.named = before
            branches.setdefault(str(label), branch)
        return list(branches.values())

    def _again(self, _depth: int) -> Any:
        """A type that contains itself."""
        name = self.draw(st.sampled_from(self.open))
        return self.draw(
            st.sampled_from(
                [["null", name], {"type": "array", "items": name}, {"type": "map", "values": name}]
            )
        )


class _Data:
    """Draws values of a schema; below a depth, the smallest there are."""

    def __init__(self, draw: Draw, named: dict[str, Any]) -> None:
        self.draw = draw
        self.named = named

    def value(self, schema: Any, depth: int = 0) -> Any:
        schema = self.named.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, list):
            return self._branch(schema, depth)
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "record":
                return {f["name"]: self.value(f["type"], depth + 1) for f in schema["fields"]}
            case "array":
                return [self.value(schema["items"], depth + 1) for _ in range(self._size(depth))]
            case "map":
                sizes = range(self._size(depth))
                return {f"key {i}": self.value(schema["values"], depth + 1) for i in sizes}
            case "enum":
                return self.draw(st.sampled_from(schema["symbols"]))
            case "fixed":
                return self.draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        return self.draw(_VALUES[kind])

    def _branch(self, branches: list[Any], depth: int) -> Any:
        shallow = "null" in branches and depth > 7
        return None if shallow else self.value(self.draw(st.sampled_from(branches)), depth + 1)

    def _size(self, depth: int) -> int:
        return 0 if depth > 7 else self.draw(st.sampled_from([0, 0, 1, 2, 3, 9]))


def _paths(schema: Any, named: dict[str, Any], seen: tuple[str, ...] = ()) -> Iterator[Path]:
    """The paths of all record fields."""
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        for branch in schema:
            yield from _paths(branch, named, seen)
    elif isinstance(schema, dict) and schema["type"] == "array":
        yield from _paths(schema["items"], named, seen)
    elif isinstance(schema, dict) and schema["type"] == "record" and seen.count(schema["name"]) < 2:
        for each in schema["fields"]:
            yield (each["name"],)
            below = _paths(each["type"], named, (*seen, schema["name"]))
            yield from ((each["name"], *rest) for rest in below)


def _shapes(schema: Any, named: dict[str, Any], path: Path, lists: int = 0) -> set[Any]:
    """What may be at the end of a path: (type, number of lists around it)."""
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        return set().union(*(_shapes(branch, named, path, lists) for branch in schema))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "array":
        return _shapes(schema["items"], named, path, lists + 1)
    if not path:
        return {(schema.get("name", kind) if isinstance(schema, dict) else kind, kind, lists)}
    if kind != "record":
        return set()
    found = [each["type"] for each in schema["fields"] if each["name"] == path[0]]
    return _shapes(found[0], named, path[1:], lists) if found else set()


def _is_readable(schema: Any, named: dict[str, Any], path: Path) -> bool:
    shapes = _shapes(schema, named, path)
    values = {shape for shape in shapes if shape[1] != "null"}
    plain = all(kind not in ("record", "map") and lists < 2 for _, kind, lists in shapes)
    return plain and len(values) == 1 and ("null", "null", 1) not in shapes


def _expected(schema: Any, named: dict[str, Any], value: Any, path: Path) -> Any:
    """What the oracle's value holds at the end of a path."""
    schema = _branch_of(schema, named, value)
    if isinstance(value, list):
        if not _shapes(schema["items"], named, path):
            return None
        return [_expected(schema["items"], named, each, path) for each in value]
    if not path:
        return value
    if not isinstance(value, dict) or path[0] not in value:
        return None
    (field,) = [each for each in schema["fields"] if each["name"] == path[0]]
    return _expected(field["type"], named, value[path[0]], path[1:])


def _branch_of(schema: Any, named: dict[str, Any], value: Any) -> Any:
    """The type of a value: the branch that has its fields, or is the union's array."""
    branches = [named.get(str(each), each) for each in _branches(schema)]
    for branch in branches:
        kind = branch["type"] if isinstance(branch, dict) else branch
        if isinstance(value, list) and kind == "array":
            return branch
        if kind == "record" and {each["name"] for each in branch["fields"]} == _keys(value):
            return branch
    return branches[0]


def _keys(value: Any) -> set[str] | None:
    return set(value) if isinstance(value, dict) else None


def _branches(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _plain(schema: Any) -> Any:
    """The schema without logical types, which fastavro would turn into values of other types."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _plain(v) if k != "symbols" else v for k, v in schema.items() if k != "logicalType"}


@st.composite
def files(draw: Draw) -> tuple[Any, dict[str, Any], list[Any]]:
    schemas = _Schemas(draw)
    root: Any = schemas.record(0)
    if draw(st.integers(0, 9)) == 0:
        root = ["null", root]
    data = _Data(draw, schemas.named)
    return root, schemas.named, [data.value(root) for _ in range(draw(st.integers(0, 6)))]


_relaxed = examples(60)


@_relaxed
@given(st.data(), files(), st.sampled_from(CODECS), st.sampled_from([1, 60, 16000]))
def test_columns_are_as_fastavro_reads_them(
    data: st.DataObject, file: tuple[Any, dict[str, Any], list[Any]], codec: str, interval: int
) -> None:
    schema, named, records = file
    paths = [
        path for path in dict.fromkeys(_paths(schema, named)) if _is_readable(schema, named, path)
    ]
    chosen = data.draw(st.lists(st.sampled_from(paths), max_size=6)) if paths else []
    columns = [ProjectedColumn(f"c{i}", names=path) for i, path in enumerate(chosen)]
    columns.append(ProjectedColumn("missing", names=("no such field",)))
    oracle = list(fastavro.reader(io.BytesIO(write_avro(_plain(schema), records))))
    expected = [
        {f"c{i}": _expected(schema, named, record, path) for i, path in enumerate(chosen)}
        | {"missing": None}
        for record in oracle
    ]
    written = write_avro(_plain(schema), records, codec, interval)
    blocks = written[written.index(SYNC) + len(SYNC) :]
    assert rows(file_of(schema, codec=codec) + blocks, columns) == expected


@_relaxed
@given(st.data(), files(), st.integers(0, 20), st.binary(max_size=200))
def test_any_bytes_for_any_schema_give_the_rows_they_claim_or_damage(
    data: st.DataObject,
    file: tuple[Any, dict[str, Any], list[Any]],
    count: int,
    body: bytes,
) -> None:
    schema, named, _ = file
    paths = [path for path in _paths(schema, named) if _is_readable(schema, named, path)]
    chosen = data.draw(st.lists(st.sampled_from(paths), max_size=6)) if paths else []
    columns = [ProjectedColumn(f"c{i}", names=path) for i, path in enumerate([*chosen, ("none",)])]
    try:
        found = len(rows(file_of(schema, (count, body)), columns))
    except DamagedError:
        return
    assert found == count
