"""The objects of one realm: immutable values under an id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import DamagedRowError, RowLimitError, WrongTypeError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectRow, RowKey, row_keys
from lakesweep.store.objects import row_format
from lakesweep.store.objects.object_types import ObjectTypes, UnknownObject
from lakesweep.store.objects.row_format import Frame

Value = TypeVar("Value")
Kind = TypeVar("Kind")

_NO_HINTS: Mapping[int, int] = {}


class IdSource(Protocol):
    """A source of new ids."""

    def next(self) -> int:
        """An id that was never used before, at least 0 and below 2**63."""
        ...


class Stored(msgspec.Struct, Generic[Value], frozen=True, gc=False):
    """A stored value, in this many `parts`, since `created_at` (microseconds).

    Only values written conditionally have a `token`, which identifies that write.
    """

    id: int
    value: Value
    created_at: int
    parts: int = 1
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Staged:
    """Objects that are ready to be written, and their rows."""

    objects: Sequence[Stored[Any]]
    rows: Sequence[ObjectRow]


class Objects:
    """Reads and writes the objects of one realm.

    `write` creates or replaces, in as many rows as necessary; readers elsewhere may see it late.
    `insert`, `update` and `remove` are conditional, in one row, and visible to everyone at once.
    """

    def __init__(
        self, backend: Backend, realm: str, types: ObjectTypes, clock: Clock, ids: IdSource
    ) -> None:
        self._backend = backend
        self._realm = realm
        self._types = types
        self._clock = clock
        self._ids = ids

    def undecoded(self) -> Objects:
        """The same objects, each as an UnknownObject, as if no type were registered."""
        return Objects(self._backend, self._realm, ObjectTypes({}), self._clock, self._ids)

    def fetch(self, number: int, kind: type[Kind]) -> Stored[Kind] | None:
        """The object, or None. WrongTypeError if it is not of this kind."""
        return self.fetch_many([number], kind)[0]

    def fetch_many(
        self, ids: Sequence[int], kind: type[Kind], hints: Mapping[int, int] = _NO_HINTS
    ) -> Sequence[Stored[Kind] | None]:
        """The objects of these ids, in order; None for each missing one.

        A hint says in how many parts an object was written. This takes one round trip if all hints
        are right or too large, and one more if any is too small.
        """
        rows = self._backend.fetch(self._realm, _wanted(ids, hints))
        found, in_parts = self._read_whole(rows.values(), kind)
        if in_parts:
            found |= self._read_parts(in_parts, rows, kind)
        return [found.get(number) for number in ids]

    def read(self, row: ObjectRow, kind: type[Kind]) -> Stored[Kind] | None:
        """The object if it is entirely in this row; None if there is more of it."""
        return self._read_whole([row], kind)[0].get(row.id)

    def write(self, number: int, value: msgspec.Struct | UnknownObject) -> Stored[Any]:
        """Create or replace one object."""
        return self.write_many({number: value})[0]

    def write_many(
        self, values: Mapping[int, msgspec.Struct | UnknownObject]
    ) -> Sequence[Stored[Any]]:
        """Create or replace objects, in one round trip but not atomically."""
        staged = self.stage(values)
        self.put(staged)
        return staged.objects

    def stage(self, values: Mapping[int, msgspec.Struct | UnknownObject]) -> Staged:
        """Create the rows of objects, without writing them yet."""
        now = micros(self._clock.now())
        objects: list[Stored[Any]] = []
        rows: list[ObjectRow] = []
        for number, value in values.items():
            parts = self._rows(number, value, now)
            objects.append(Stored(number, value, now, len(parts)))
            rows.extend(parts)
        return Staged(objects, rows)

    def put(self, staged: Staged) -> None:
        """Write staged objects. After any error this may be repeated, or the objects deleted."""
        self._backend.write(self._realm, staged.rows)

    def delete(self, objects: Iterable[Stored[Any]]) -> None:
        """Delete objects that were written or read before; missing ones are not an error."""
        keys = [key for each in objects for key in _keys(each.id, each.parts)]
        self._backend.delete(self._realm, keys)

    def insert(self, number: int, value: msgspec.Struct) -> Stored[Any] | None:
        """Create the object if the id is free; otherwise None."""
        row = self._one_row(number, value)
        return _as_stored(row, value) if self._backend.insert_row(self._realm, row) else None

    def update(self, expected: Stored[Any], value: msgspec.Struct) -> Stored[Any] | None:
        """Replace the object if its last write is the expected one; otherwise None."""
        row = self._one_row(expected.id, value)
        updated = self._backend.update_row(self._realm, row, _token(expected))
        return _as_stored(row, value) if updated else None

    def remove(self, expected: Stored[Any]) -> bool:
        """Delete the object if its last write is the expected one."""
        return self._backend.delete_row(self._realm, RowKey(expected.id), _token(expected))

    def _rows(
        self, number: int, value: msgspec.Struct | UnknownObject, now: int
    ) -> Sequence[ObjectRow]:
        name, payload = self._types.encode(value)
        if len(payload) > row_format.MAX_OBJECT_BYTES:
            raise RowLimitError(f"object {number}: {len(payload)} bytes are too many")
        values: Sequence[bytes] = (
            [row_format.encode_whole(payload)]
            if len(payload) <= row_format.MAX_WHOLE_BYTES
            else row_format.encode_parts(payload, self._ids.next())
        )
        plain = int(number)
        return [
            ObjectRow(plain, part, name, now, None, framed) for part, framed in enumerate(values)
        ]

    def _one_row(self, number: int, value: msgspec.Struct) -> ObjectRow:
        name, payload = self._types.encode(value)
        if len(payload) > row_format.MAX_WHOLE_BYTES:
            raise RowLimitError(
                f"object {number}: {len(payload)} bytes do not fit in one row of "
                f"{row_format.MAX_WHOLE_BYTES}, as a conditional write requires"
            )
        now = micros(self._clock.now())
        return ObjectRow(
            int(number), 0, name, now, self._ids.next(), row_format.encode_whole(payload)
        )

    def _read_whole(
        self, rows: Iterable[ObjectRow], kind: type[Kind]
    ) -> tuple[dict[int, Stored[Kind]], list[ObjectRow]]:
        """The objects that fit in one row each, and the first rows of the others."""
        found: dict[int, Stored[Kind]] = {}
        in_parts = []
        content, decode = row_format.whole_payload, self._types.decode
        # Tens of thousands of rows pass through here, so it is one loop with few calls.
        for row in rows:
            number, part, name, created_at, token, framed = row
            payload = content(framed)
            if payload is None:
                if part == 0:
                    in_parts.append(row)
                continue
            try:
                value = decode(name, payload)
            except DamagedRowError as error:
                raise _of_object(number, error) from error
            if not isinstance(value, kind):
                raise self._wrong_type(row, kind)
            found[number] = Stored(number, value, created_at, 1, token)
        return found, in_parts

    def _read_parts(
        self, firsts: Sequence[ObjectRow], rows: Mapping[RowKey, ObjectRow], kind: type[Kind]
    ) -> dict[int, Stored[Kind]]:
        parsed = [(row, parse_row(row)) for row in firsts]
        every = [key for row, first in parsed for key in _keys(row.id, first.parts)]
        further = [key for key in every if key not in rows]
        if further:
            rows = {**rows, **self._backend.fetch(self._realm, further)}
        return {row.id: self._assemble(row, first, rows, kind) for row, first in parsed}

    def _assemble(
        self, row: ObjectRow, first: Frame, rows: Mapping[RowKey, ObjectRow], kind: type[Kind]
    ) -> Stored[Kind]:
        payload = _join(row.id, first, rows)
        try:
            value = self._types.decode(row.type, payload)
        except DamagedRowError as error:
            raise _of_object(row.id, error) from error
        if not isinstance(value, kind):
            raise self._wrong_type(row, kind)
        return Stored(row.id, value, row.created_at, first.parts, row.token)

    def _wrong_type(self, row: ObjectRow, kind: type[Any]) -> WrongTypeError:
        return WrongTypeError(
            f"object {row.id} of realm {self._realm} is a {row.type}, not a {kind.__name__}"
        )


def parse_row(row: ObjectRow) -> Frame:
    """What a row contains of its object; errors name the object."""
    try:
        return row_format.parse_frame(row.value)
    except DamagedRowError as error:
        raise _of_object(row.id, error) from error


def _of_object(number: int, error: DamagedRowError) -> DamagedRowError:
    return type(error)(f"object {number}: {error.message}", hint=error.hint)


def _wanted(ids: Collection[int], hints: Mapping[int, int]) -> Collection[RowKey]:
    # Ascending, since most databases store neighbours side by side.
    numbers = sorted(set(ids)) if len(ids) > 1 else ids
    if not hints:
        return row_keys(zip(numbers, repeat(0)))
    return [key for number in numbers for key in _keys(number, max(hints.get(number, 1), 1))]


def _keys(number: int, parts: int) -> Sequence[RowKey]:
    return [RowKey(number, part) for part in range(parts)]


def _join(number: int, first: Frame, rows: Mapping[RowKey, ObjectRow]) -> bytes:
    _check_part(number, 0, first)
    pieces = [first.piece]
    for key in _keys(number, first.parts)[1:]:
        if key not in rows:
            raise DamagedRowError(f"object {number}: part {key.part} of {first.parts} is missing")
        frame = parse_row(rows[key])
        # Two writers of one id interleaved: combining their parts would create an object no one
        # wrote.
        if (frame.generation, frame.parts) != (first.generation, first.parts):
            raise DamagedRowError(f"object {number}: its parts come from different writes")
        _check_part(number, key.part, frame)
        pieces.append(frame.piece)
    return b"".join(pieces)


def _check_part(number: int, part: int, frame: Frame) -> None:
    if frame.part != part:
        raise DamagedRowError(f"object {number}: part {frame.part} is stored as part {part}")


def _as_stored(row: ObjectRow, value: msgspec.Struct) -> Stored[Any]:
    return Stored(row.id, value, row.created_at, 1, row.token)


def _token(expected: Stored[Any]) -> int:
    if expected.token is None:
        raise ValueError(f"object {expected.id} was not written conditionally")
    return expected.token
