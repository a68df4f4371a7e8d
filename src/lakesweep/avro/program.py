"""Compile a header's schema into the programme that finds the chosen columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakesweep.avro import ops
from lakesweep.avro.projection import Path, Shape, find_field, find_shape
from lakesweep.avro.schema import (
    Array,
    Field,
    Kind,
    Leaf,
    Map,
    Node,
    Record,
    Reference,
    Schema,
    Union,
    is_empty,
)

_VARINTS = {Kind.INT, Kind.LONG, Kind.ENUM}
_FIXED_SIZES = {Kind.NULL: 0, Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}
_KEEPS = {
    Kind.INT: ops.KEEP_INT,
    Kind.LONG: ops.KEEP_LONG,
    Kind.ENUM: ops.KEEP_ENUM,
    Kind.BOOLEAN: ops.KEEP_BOOLEAN,
    Kind.FLOAT: ops.KEEP_FLOAT,
    Kind.DOUBLE: ops.KEEP_DOUBLE,
    Kind.BYTES: ops.KEEP_BYTES,
    Kind.STRING: ops.KEEP_BYTES,
    Kind.FIXED: ops.KEEP_FIXED,
}

#: A step over a value: an operation and its argument.
Step = tuple[int, int]

_KEY: Step = (ops.SKIP_BYTES, 0)
_WHOLE_ARRAYS = {
    ops.SKIP_VARINTS: ops.SKIP_ARRAY_VARINTS,
    ops.SKIP_FIXED: ops.SKIP_ARRAY_FIXED,
}
_NULL = Leaf(Kind.NULL)
_NOT_NULL = -1


@dataclass(frozen=True, slots=True)
class Want:
    """A column that is still to be found below a node; `path` leads there."""

    slot: int
    shape: Shape
    path: Path


def compile_program(schema: Schema, columns: Sequence[tuple[Shape, Path]]) -> npt.NDArray[np.int64]:
    """Write the programme that keeps columns, each of a shape at the end of a path, in slots."""
    wants = tuple(Want(slot, shape, path) for slot, (shape, path) in enumerate(columns))
    return _Compiler().compile(schema.root, wants)


@dataclass(slots=True)
class _Compiler:
    code: list[list[int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    calls: list[tuple[int, Record]] = field(default_factory=list)

    def compile(self, root: Node, wants: tuple[Want, ...]) -> npt.NDArray[np.int64]:
        self._take(root, wants, inside=False)
        self._emit(ops.END)
        self._emit_routines()
        return np.array(self.code, dtype=np.int64).reshape(-1)

    def _emit_routines(self) -> None:
        """Write each record that is called once, and tell the calls where it is."""
        places: dict[int, int] = {}
        while self.calls:
            call, record = self.calls.pop()
            if id(record) not in places:
                places[id(record)] = self._here()
                self._skip_record(record)
                self._emit(ops.RETURN)
            self.code[call][1] = places[id(record)]

    # Writing.

    def _emit(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self._flush()
        self.code.append([op, a, b, c])
        return len(self.code) - 1

    def _here(self) -> int:
        """The place of the next instruction, as jumps name it."""
        self._flush()
        return len(self.code) * ops.WIDTH

    def _step(self, steps: Sequence[Step]) -> None:
        """Add steps; neighbours of one kind become one instruction when they are written."""
        for op, amount in steps:
            if self.steps and self.steps[-1][0] == op != ops.SKIP_BYTES:
                self.steps[-1] = (op, self.steps[-1][1] + amount)
            else:
                self.steps.append((op, amount))

    def _flush(self) -> None:
        self.code.extend([op, amount, _NOT_NULL, 0] for op, amount in self.steps)
        self.steps.clear()

    def _table(self, op: int, argument: int, entries: int) -> list[int]:
        """Write an instruction and the jumps that it chooses from."""
        self._emit(op, argument)
        return [self._emit(ops.JUMP) for _ in range(entries)]

    # Stepping over.

    def _skip(self, node: Node) -> None:
        steps = _plain(node)
        if steps is not None:
            self._step(steps)
            return
        match node:
            case Record():
                self._skip_record(node)
            case Reference(target=Record() as record):
                self.calls.append((self._emit(ops.CALL), record))
            case Union():
                self._skip_union(node)
            case Array(items=items):
                self._skip_items([], items)
            case Map(values=values):
                self._skip_items([_KEY], values)

    def _skip_record(self, record: Record) -> None:
        self._fields([(each, ()) for each in record.fields], inside=False)

    def _skip_union(self, union: Union) -> None:
        optional = _optional(union)
        if optional is not None:
            self._emit(*optional)
            return
        self._branches(union, (), inside=False)

    def _skip_items(self, key: list[Step], item: Node) -> None:
        whole = _whole_array(key, item)
        if whole is not None:
            self._emit(*whole, _NOT_NULL)
            return
        loop = self._emit(ops.LOOP)
        body = self._here()
        self._step(key)
        self._skip(item)
        self._close_loop(loop, body, walk_all=False)

    def _close_loop(self, loop: int, body: int, *, walk_all: bool) -> None:
        self.code[loop][1] = self._here()
        self._emit(ops.NEXT, body, int(walk_all))

    # Keeping.

    def _take(self, node: Node, wants: tuple[Want, ...], *, inside: bool) -> None:
        """Walk over a node and keep what is wanted below it; `inside` an array that is kept."""
        if not wants:
            self._skip(node)
            return
        match node:
            case Leaf():
                self._take_leaf(node, wants, inside=inside)
            case Reference(target=target):
                self._take(target, wants, inside=inside)
            case Record():
                self._take_record(node, wants, inside=inside)
            case Union():
                self._branches(node, wants, inside=inside)
            case Array():
                self._take_array(node, wants, inside=inside)
            case Map():
                self._skip(node)
                self._nulls(wants, inside=inside)

    def _take_leaf(self, leaf: Leaf, wants: tuple[Want, ...], *, inside: bool) -> None:
        here = [want for want in wants if not want.path and leaf.kind is not Kind.NULL]
        for want in here:
            again = want is not here[-1]
            self._emit(_KEEPS[leaf.kind], want.slot, int(again), len(leaf.symbols) or leaf.size)
        if not here:
            self._skip(leaf)
        self._nulls([want for want in wants if want not in here], inside=inside)

    def _take_record(self, record: Record, wants: tuple[Want, ...], *, inside: bool) -> None:
        below: dict[int, list[Want]] = {}
        lost = []
        for want in wants:
            found = find_field(record, want.path)
            if found is None:
                lost.append(want)
            else:
                below.setdefault(id(found), []).append(
                    Want(want.slot, want.shape, want.path.rest())
                )
        self._fields(
            [(each, tuple(below.get(id(each), ()))) for each in record.fields], inside=inside
        )
        self._nulls(lost, inside=inside)

    def _take_array(self, array: Array, wants: tuple[Want, ...], *, inside: bool) -> None:
        found = tuple(want for want in wants if find_shape(array, want.path) == want.shape)
        if found:
            loop = self._emit(ops.LOOP)
            body = self._here()
            self._take(array.items, found, inside=True)
            self._close_loop(loop, body, walk_all=True)
        else:
            self._skip(array)
        for want in found:
            self._emit(ops.KEEP_LIST, want.slot)
        self._nulls([want for want in wants if want not in found], inside=inside)

    def _nulls(self, wants: Sequence[Want], *, inside: bool) -> None:
        for want in wants:
            if want.shape.is_list and not inside:
                self._emit(ops.KEEP_NULL_LIST, want.slot)
            else:
                self._emit(ops.KEEP_NULL, want.slot, 0, want.shape.leaf.size)

    # Both.

    def _fields(self, fields: Sequence[tuple[Field, tuple[Want, ...]]], *, inside: bool) -> None:
        """Walk over fields; a run of skipped nullable ones begins with a look for nulls."""
        done = 0
        while done < len(fields):
            run = _nullable_run(fields[done:])
            if len(run) > 1:
                self._skip_run(run)
                done += len(run)
            else:
                each, wants = fields[done]
                self._take(each.type, wants, inside=inside)
                done += 1

    def _skip_run(self, run: Sequence[Union]) -> None:
        jumps = self._table(ops.NULL_RUN, len(run), len(run) + 1)
        for jump, union in zip(jumps, run, strict=False):
            self.code[jump][1] = self._here()
            self._skip(union)
        self.code[jumps[-1]][1] = self._here()

    def _branches(self, union: Union, wants: tuple[Want, ...], *, inside: bool) -> None:
        jumps = self._table(ops.UNION, len(union.branches), len(union.branches))
        leaves = []
        for jump, branch in zip(jumps, union.branches, strict=True):
            self.code[jump][1] = self._here()
            self._take(branch, wants, inside=inside)
            leaves.append(self._emit(ops.JUMP))
        for leave in leaves:
            self.code[leave][1] = self._here()


def _plain(node: Node) -> list[Step] | None:
    """The steps over a value without choices or loops in it; None where it has some."""
    match node:
        case Leaf(kind=kind) if kind in _VARINTS:
            return [(ops.SKIP_VARINTS, 1)]
        case Leaf(kind=Kind.BYTES | Kind.STRING):
            return [(ops.SKIP_BYTES, 0)]
        case Leaf(kind=kind, size=size):
            amount = _FIXED_SIZES.get(kind, size)
            return [(ops.SKIP_FIXED, amount)] if amount else []
        case Reference(target=Leaf() as leaf):
            return _plain(leaf)
        case Record(fields=fields):
            return _plain_fields(fields)
    return None


def _plain_fields(fields: Sequence[Field]) -> list[Step] | None:
    steps: list[Step] = []
    for each in fields:
        more = _plain(each.type)
        if more is None:
            return None
        steps += more
    return steps


def _whole_array(key: list[Step], item: Node) -> Step | None:
    """The one instruction that steps over all items of an array or a map, where there is one."""
    if is_empty(item) and not key:
        return ops.SKIP_ARRAY_FIXED, 0
    plain = _plain(item)
    if plain is None:
        return None
    steps = key + plain
    kinds = [op for op, _ in steps]
    if kinds == [ops.SKIP_VARINTS, ops.SKIP_BYTES]:
        return ops.SKIP_ARRAY_PAIRS, 0
    if len(set(kinds)) == 1 and kinds[0] in _WHOLE_ARRAYS:
        return _WHOLE_ARRAYS[kinds[0]], sum(amount for _, amount in steps)
    return None


def _single(node: Node) -> Step | None:
    """The one instruction that steps over a value, where there is one."""
    match node:
        case Array(items=items):
            return _whole_array([], items)
        case Map(values=values):
            return _whole_array([_KEY], values)
    steps = _plain(node)
    return steps[0] if steps and len(steps) == 1 else None


def _optional(union: Union) -> tuple[int, int, int] | None:
    """The one instruction that steps over a union of null and something else."""
    if len(union.branches) != 2 or _NULL not in union.branches:
        return None
    null = union.branches.index(_NULL)
    step = _single(union.branches[1 - null])
    return None if step is None else (*step, null)


def _nullable_run(fields: Sequence[tuple[Field, tuple[Want, ...]]]) -> list[Union]:
    """The leading fields that are skipped unions with null as their first branch."""
    run: list[Union] = []
    for each, wants in fields:
        if wants or not isinstance(each.type, Union) or each.type.branches[:1] != (_NULL,):
            break
        run.append(each.type)
    return run
