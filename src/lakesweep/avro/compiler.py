"""Compile a header's schema into the program that finds the selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakesweep.avro import opcodes
from lakesweep.avro.projection import Path, Shape, find_field, find_shape
from lakesweep.avro.schema import (
    ArrayType,
    AvroKind,
    AvroSchema,
    AvroType,
    LeafType,
    MapType,
    RecordField,
    RecordType,
    TypeReference,
    UnionType,
    is_empty,
)

_VARINTS = {AvroKind.INT, AvroKind.LONG, AvroKind.ENUM}
_FIXED_SIZES = {AvroKind.NULL: 0, AvroKind.BOOLEAN: 1, AvroKind.FLOAT: 4, AvroKind.DOUBLE: 8}
_KEEPS = {
    AvroKind.INT: opcodes.KEEP_INT,
    AvroKind.LONG: opcodes.KEEP_LONG,
    AvroKind.ENUM: opcodes.KEEP_ENUM,
    AvroKind.BOOLEAN: opcodes.KEEP_BOOLEAN,
    AvroKind.FLOAT: opcodes.KEEP_FLOAT,
    AvroKind.DOUBLE: opcodes.KEEP_DOUBLE,
    AvroKind.BYTES: opcodes.KEEP_BYTES,
    AvroKind.STRING: opcodes.KEEP_BYTES,
    AvroKind.FIXED: opcodes.KEEP_FIXED,
}

#: A step over a value: an operation and its argument.
Step = tuple[int, int]

_KEY: Step = (opcodes.SKIP_BYTES, 0)
_WHOLE_ARRAYS = {
    opcodes.SKIP_VARINTS: opcodes.SKIP_ARRAY_VARINTS,
    opcodes.SKIP_FIXED: opcodes.SKIP_ARRAY_FIXED,
}
_NULL = LeafType(AvroKind.NULL)
_NOT_NULL = -1


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column that is still to be found below a node; `path` leads there."""

    slot: int
    shape: Shape
    path: Path


def compile_program(
    schema: AvroSchema, columns: Sequence[tuple[Shape, Path]]
) -> npt.NDArray[np.int64]:
    """Write the program that keeps columns, each with a shape and a path, in slots."""
    wants = tuple(WantedColumn(slot, shape, path) for slot, (shape, path) in enumerate(columns))
    return _Compiler().compile(schema.root, wants)


@dataclass(slots=True)
class _Compiler:
    code: list[list[int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    calls: list[tuple[int, RecordType]] = field(default_factory=list)

    def compile(self, root: AvroType, wants: tuple[WantedColumn, ...]) -> npt.NDArray[np.int64]:
        self._take(root, wants, inside=False)
        self._emit(opcodes.END)
        self._emit_routines()
        return np.array(self.code, dtype=np.int64).reshape(-1)

    def _emit_routines(self) -> None:
        """Write each called record once, and patch its address into the calls."""
        places: dict[int, int] = {}
        while self.calls:
            call, record = self.calls.pop()
            if id(record) not in places:
                places[id(record)] = self._here()
                self._skip_record(record)
                self._emit(opcodes.RETURN)
            self.code[call][1] = places[id(record)]

    # Writing instructions.

    def _emit(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self._flush()
        self.code.append([op, a, b, c])
        return len(self.code) - 1

    def _here(self) -> int:
        """The offset of the next instruction, as used by jumps."""
        self._flush()
        return len(self.code) * opcodes.WIDTH

    def _step(self, steps: Sequence[Step]) -> None:
        """Add steps; adjacent ones of one kind are merged when written."""
        for op, amount in steps:
            if self.steps and self.steps[-1][0] == op != opcodes.SKIP_BYTES:
                self.steps[-1] = (op, self.steps[-1][1] + amount)
            else:
                self.steps.append((op, amount))

    def _flush(self) -> None:
        self.code.extend([op, amount, _NOT_NULL, 0] for op, amount in self.steps)
        self.steps.clear()

    def _table(self, op: int, argument: int, entries: int) -> list[int]:
        """Write an instruction and the jumps that it chooses from."""
        self._emit(op, argument)
        return [self._emit(opcodes.JUMP) for _ in range(entries)]

    # Skipping values.

    def _skip(self, node: AvroType) -> None:
        # Records that hold each other twice, forty levels deep, would be called 2**40 times
        # without reading a byte.
        if is_empty(node):
            return
        steps = _plain(node)
        if steps is not None:
            self._step(steps)
            return
        match node:
            case RecordType():
                self._skip_record(node)
            case TypeReference(target=RecordType() as record):
                self.calls.append((self._emit(opcodes.CALL), record))
            case UnionType():
                self._skip_union(node)
            case ArrayType(items=items):
                self._skip_items([], items)
            case MapType(values=values):
                self._skip_items([_KEY], values)

    def _skip_record(self, record: RecordType) -> None:
        self._fields([(each, ()) for each in record.fields], inside=False)

    def _skip_union(self, union: UnionType) -> None:
        optional = _optional(union)
        if optional is not None:
            self._emit(*optional)
            return
        self._branches(union, (), inside=False)

    def _skip_items(self, key: list[Step], item: AvroType) -> None:
        whole = _whole_array(key, item)
        if whole is not None:
            self._emit(*whole, _NOT_NULL)
            return
        loop = self._emit(opcodes.LOOP)
        body = self._here()
        self._step(key)
        self._skip(item)
        self._close_loop(loop, body, walk_all=False)

    def _close_loop(self, loop: int, body: int, *, walk_all: bool) -> None:
        self.code[loop][1] = self._here()
        self._emit(opcodes.NEXT, body, int(walk_all))

    # Keeping values.

    def _take(self, node: AvroType, wants: tuple[WantedColumn, ...], *, inside: bool) -> None:
        """Process a node and keep what is selected below it; `inside` an array that is kept."""
        if not wants:
            self._skip(node)
            return
        match node:
            case LeafType():
                self._take_leaf(node, wants, inside=inside)
            case TypeReference(target=target):
                self._take(target, wants, inside=inside)
            case RecordType():
                self._take_record(node, wants, inside=inside)
            case UnionType():
                self._branches(node, wants, inside=inside)
            case ArrayType():
                self._take_array(node, wants, inside=inside)
            case MapType():
                self._skip(node)
                self._nulls(wants, inside=inside)

    def _take_leaf(self, leaf: LeafType, wants: tuple[WantedColumn, ...], *, inside: bool) -> None:
        here = [want for want in wants if not want.path and leaf.kind is not AvroKind.NULL]
        for want in here:
            again = want is not here[-1]
            self._emit(_KEEPS[leaf.kind], want.slot, int(again), len(leaf.symbols) or leaf.size)
        if not here:
            self._skip(leaf)
        self._nulls([want for want in wants if want not in here], inside=inside)

    def _take_record(
        self, record: RecordType, wants: tuple[WantedColumn, ...], *, inside: bool
    ) -> None:
        below: dict[int, list[WantedColumn]] = {}
        lost = []
        for want in wants:
            found = find_field(record, want.path)
            if found is None:
                lost.append(want)
            else:
                below.setdefault(id(found), []).append(
                    WantedColumn(want.slot, want.shape, want.path.rest())
                )
        self._fields(
            [(each, tuple(below.get(id(each), ()))) for each in record.fields], inside=inside
        )
        self._nulls(lost, inside=inside)

    def _take_array(
        self, array: ArrayType, wants: tuple[WantedColumn, ...], *, inside: bool
    ) -> None:
        found = tuple(want for want in wants if find_shape(array, want.path) == want.shape)
        if found:
            loop = self._emit(opcodes.LOOP)
            body = self._here()
            self._take(array.items, found, inside=True)
            self._close_loop(loop, body, walk_all=True)
        else:
            self._skip(array)
        for want in found:
            self._emit(opcodes.KEEP_LIST, want.slot)
        self._nulls([want for want in wants if want not in found], inside=inside)

    def _nulls(self, wants: Sequence[WantedColumn], *, inside: bool) -> None:
        for want in wants:
            if want.shape.is_list and not inside:
                self._emit(opcodes.KEEP_NULL_LIST, want.slot)
            else:
                self._emit(opcodes.KEEP_NULL, want.slot, 0, want.shape.leaf.size)

    # Both.

    def _fields(
        self, fields: Sequence[tuple[RecordField, tuple[WantedColumn, ...]]], *, inside: bool
    ) -> None:
        """Process fields; a run of skipped nullable ones starts with a check for nulls."""
        done = 0
        while done < len(fields):
            run = _nullable_run(fields, done)
            if len(run) > 1:
                self._skip_run(run)
                done += len(run)
            else:
                each, wants = fields[done]
                self._take(each.type, wants, inside=inside)
                done += 1

    def _skip_run(self, run: Sequence[UnionType]) -> None:
        jumps = self._table(opcodes.NULL_RUN, len(run), len(run) + 1)
        for jump, union in zip(jumps, run, strict=False):
            self.code[jump][1] = self._here()
            self._skip(union)
        self.code[jumps[-1]][1] = self._here()

    def _branches(self, union: UnionType, wants: tuple[WantedColumn, ...], *, inside: bool) -> None:
        jumps = self._table(opcodes.UNION, len(union.branches), len(union.branches))
        leaves = []
        for jump, branch in zip(jumps, union.branches, strict=True):
            self.code[jump][1] = self._here()
            self._take(branch, wants, inside=inside)
            leaves.append(self._emit(opcodes.JUMP))
        for leave in leaves:
            self.code[leave][1] = self._here()


def _plain(node: AvroType) -> list[Step] | None:
    """The steps over a value without branches or loops; None if it has some."""
    match node:
        case LeafType(kind=kind) if kind in _VARINTS:
            return [(opcodes.SKIP_VARINTS, 1)]
        case LeafType(kind=AvroKind.BYTES | AvroKind.STRING):
            return [(opcodes.SKIP_BYTES, 0)]
        case LeafType(kind=kind, size=size):
            amount = _FIXED_SIZES.get(kind, size)
            return [(opcodes.SKIP_FIXED, amount)] if amount else []
        case TypeReference(target=LeafType() as leaf):
            return _plain(leaf)
        case RecordType(fields=fields):
            return _plain_fields(fields)
    return None


def _plain_fields(fields: Sequence[RecordField]) -> list[Step] | None:
    steps: list[Step] = []
    for each in fields:
        more = _plain(each.type)
        if more is None:
            return None
        steps += more
    return steps


def _whole_array(key: list[Step], item: AvroType) -> Step | None:
    """The single instruction that skips all items of an array or a map, if there is one."""
    if is_empty(item) and not key:
        return opcodes.SKIP_ARRAY_FIXED, 0
    plain = _plain(item)
    if plain is None:
        return None
    steps = key + plain
    kinds = [op for op, _ in steps]
    if kinds == [opcodes.SKIP_VARINTS, opcodes.SKIP_BYTES]:
        return opcodes.SKIP_ARRAY_PAIRS, 0
    if len(set(kinds)) == 1 and kinds[0] in _WHOLE_ARRAYS:
        return _WHOLE_ARRAYS[kinds[0]], sum(amount for _, amount in steps)
    return None


def _single(node: AvroType) -> Step | None:
    """The single instruction that skips a value, if there is one."""
    match node:
        case ArrayType(items=items):
            return _whole_array([], items)
        case MapType(values=values):
            return _whole_array([_KEY], values)
    steps = _plain(node)
    return steps[0] if steps and len(steps) == 1 else None


def _optional(union: UnionType) -> tuple[int, int, int] | None:
    """The single instruction that skips a union of null and something else."""
    if len(union.branches) != 2 or _NULL not in union.branches:
        return None
    null = union.branches.index(_NULL)
    step = _single(union.branches[1 - null])
    return None if step is None else (*step, null)


def _nullable_run(
    fields: Sequence[tuple[RecordField, tuple[WantedColumn, ...]]], start: int
) -> list[UnionType]:
    """The fields from `start` on that are skipped unions with null as their first branch."""
    run: list[UnionType] = []
    for at in range(start, len(fields)):
        each, wants = fields[at]
        if wants or not isinstance(each.type, UnionType) or each.type.branches[:1] != (_NULL,):
            break
        run.append(each.type)
    return run
