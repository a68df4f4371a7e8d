from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import pytest

from lakesweep.clock import ManualClock, micros
from lakesweep.errors import DamagedRowError, RowLimitError, WrongTypeError
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import MAX_VALUE_BYTES, ObjectRow, RowKey
from lakesweep.store.objects import row_format
from lakesweep.store.objects.object_types import ObjectTypes, UnknownObject
from lakesweep.store.objects.objects import Objects
from tests.moments import NOON
from tests.stores import REALM, TYPES, CountingIds, Note, Paper

SIZES = (50, 10_240, 204_800, 349_900, 350_100, 409_600, 1_048_576, 13_631_488)


class CountingBackend(MemoryBackend):
    """Counts round trips."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches = 0

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        self.fetches += 1
        return super().fetch(realm, keys)


@pytest.fixture
def backend() -> CountingBackend:
    return CountingBackend()


@pytest.fixture
def objects(backend: CountingBackend) -> Objects:
    return _objects(backend)


def _objects(backend: MemoryBackend, types: ObjectTypes = TYPES, first: int = 10_000) -> Objects:
    return Objects(backend, REALM, types, ManualClock(NOON), CountingIds(first))


def test_a_missing_object_is_none(objects: Objects) -> None:
    assert objects.fetch(1, Paper) is None
    assert objects.fetch_many([], Paper) == []


def test_an_object_comes_back_with_the_time_of_its_write(objects: Objects) -> None:
    written = objects.write(1, Paper("a"))
    assert objects.fetch(1, Paper) == written
    assert (written.value, written.created_at, written.parts) == (Paper("a"), micros(NOON), 1)


def test_many_objects_come_in_the_order_of_the_question(objects: Objects) -> None:
    objects.write_many({1: Paper("a"), 2: Paper("b")})
    found = objects.fetch_many([2, 3, 1, 2], Paper)
    assert [each and each.value.text for each in found] == ["b", None, "a", "b"]


def test_an_object_of_another_type_is_an_error(objects: Objects) -> None:
    objects.write(1, Paper("a"))
    with pytest.raises(WrongTypeError, match="object 1 of realm acme is a paper, not a Note"):
        objects.fetch(1, Note)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("hint", [0, 1, 2, 30])
def test_an_object_of_any_size_takes_two_round_trips_at_most(
    backend: CountingBackend, objects: Objects, size: int, hint: int
) -> None:
    written = objects.write(1, Paper("x" * size))
    assert objects.fetch_many([1], Paper, {1: hint}) == [written]
    assert backend.fetches == (1 if max(hint, 1) >= written.parts else 2)
    rows = backend.fetch(REALM, [RowKey(1, part) for part in range(written.parts)])
    assert all(len(row.value) <= MAX_VALUE_BYTES for row in rows.values())


def test_many_large_objects_take_two_round_trips(backend: CountingBackend) -> None:
    objects = _objects(backend)
    written = objects.write_many({number: Paper("x" * 800_000) for number in range(5)})
    assert objects.fetch_many(range(5), Paper) == written
    assert backend.fetches == 2


def test_a_smaller_object_replaces_a_larger_one(objects: Objects) -> None:
    objects.write(1, Paper("x" * 1_000_000))
    objects.write(1, Paper("y" * 400_000))
    found = objects.fetch_many([1], Paper, {1: 9})[0]
    assert found is not None
    assert (found.value.text, found.parts) == ("y" * 400_000, 2)


def test_parts_of_two_writes_are_not_taken_for_one(backend: CountingBackend) -> None:
    _objects(backend).write(1, Paper("x" * 800_000))
    old = backend.fetch(REALM, [RowKey(1, 1)])
    _objects(backend, first=20_000).write(1, Paper("y" * 800_000))
    backend.write(REALM, list(old.values()))
    with pytest.raises(DamagedRowError, match="different writes"):
        _objects(backend).fetch(1, Paper)


@pytest.mark.parametrize(("source", "target"), [(1, 2), (2, 1), (1, 0)])
def test_a_part_in_the_place_of_another_is_an_error(
    backend: CountingBackend, objects: Objects, source: int, target: int
) -> None:
    objects.write(1, Paper("x" * 1_400_000))
    row = backend.fetch(REALM, [RowKey(1, source)])[RowKey(1, source)]
    backend.write(REALM, [row._replace(part=target)])
    with pytest.raises(DamagedRowError, match=f"part {source} is stored as part {target}"):
        objects.fetch(1, Paper)


def test_a_missing_part_is_an_error(backend: CountingBackend, objects: Objects) -> None:
    objects.write(1, Paper("x" * 800_000))
    backend.delete(REALM, [RowKey(1, 2)])
    with pytest.raises(DamagedRowError, match="part 2 of 3 is missing"):
        objects.fetch(1, Paper)


@pytest.mark.parametrize("place", [0, 1, 4, 5, -1])
def test_a_damaged_row_is_an_error(backend: CountingBackend, objects: Objects, place: int) -> None:
    objects.write(1, Paper("text"))
    _damage(backend, place)
    with pytest.raises(DamagedRowError, match="object 1"):
        objects.fetch(1, Paper)


def test_a_row_cut_short_is_an_error(backend: CountingBackend, objects: Objects) -> None:
    backend.write(REALM, [ObjectRow(1, 0, "paper", 0, None, b"\x01")])
    with pytest.raises(DamagedRowError, match="truncated"):
        objects.fetch(1, Paper)


def test_bytes_that_are_no_such_value_are_an_error(
    backend: CountingBackend, objects: Objects
) -> None:
    backend.write(REALM, [ObjectRow(1, 0, "paper", 0, None, row_format.encode_whole(b"\xc1"))])
    with pytest.raises(DamagedRowError, match="object 1: not a paper"):
        objects.fetch(1, Paper)


def test_a_row_of_a_newer_format_asks_for_a_newer_program(
    backend: CountingBackend, objects: Objects
) -> None:
    backend.write(REALM, [ObjectRow(1, 0, "paper", 0, None, b"\x09" + bytes(10))])
    with pytest.raises(DamagedRowError, match="format 9") as caught:
        objects.fetch(1, Paper)
    assert caught.value.hint == "upgrade Lakesweep"


def test_an_unknown_type_is_kept_byte_for_byte(backend: CountingBackend) -> None:
    _objects(backend).write(1, Paper("text"))
    stranger = _objects(backend, ObjectTypes({}))
    found = stranger.fetch(1, UnknownObject)
    assert found is not None
    assert found.value.type == "paper"
    stranger.write(2, found.value)
    rows = backend.fetch(REALM, [RowKey(1), RowKey(2)])
    assert rows[RowKey(1)].value == rows[RowKey(2)].value
    assert _objects(backend).fetch(2, Paper) is not None


def test_fields_of_a_newer_program_do_not_disturb(backend: CountingBackend) -> None:
    class Newer(msgspec.Struct, frozen=True):
        text: str
        colour: str

    _objects(backend, ObjectTypes({"paper": Newer})).write(1, Newer("a", "red"))
    found = _objects(backend).fetch(1, Paper)
    assert found is not None
    assert found.value == Paper("a")


def test_deleting_takes_all_parts(backend: CountingBackend, objects: Objects) -> None:
    objects.delete([objects.write(1, Paper("x" * 800_000)), objects.write(2, Paper())])
    assert list(backend.scan_rows(REALM)) == []


def test_an_insert_happens_once(objects: Objects) -> None:
    first = objects.insert(1, Paper("a"))
    assert first is not None
    assert objects.insert(1, Paper("b")) is None
    assert objects.fetch(1, Paper) == first


def test_an_update_replaces_what_it_expects_and_nothing_else(objects: Objects) -> None:
    first = objects.insert(1, Paper("a"))
    assert first is not None
    second = objects.update(first, Paper("b"))
    assert second is not None
    assert objects.update(first, Paper("c")) is None
    assert objects.fetch(1, Paper) == second
    assert not objects.remove(first)
    assert objects.remove(second)
    assert objects.fetch(1, Paper) is None


def test_what_was_not_written_conditionally_cannot_be_updated(objects: Objects) -> None:
    plain = objects.write(1, Paper("a"))
    with pytest.raises(ValueError, match="not written conditionally"):
        objects.update(plain, Paper("b"))


def test_a_conditional_write_must_fit_in_one_row(
    backend: CountingBackend, objects: Objects
) -> None:
    with pytest.raises(RowLimitError, match="do not fit in one row"):
        objects.insert(1, Paper("x" * MAX_VALUE_BYTES))
    assert list(backend.scan_rows(REALM)) == []


def test_a_value_of_no_registered_type_is_refused(objects: Objects) -> None:
    class Stranger(msgspec.Struct, frozen=True):
        pass

    with pytest.raises(TypeError, match="Stranger is not a registered type"):
        objects.write(1, Stranger())


def test_the_bytes_of_a_row_stay_as_they_were_published(
    backend: CountingBackend, objects: Objects
) -> None:
    objects.write(1, Paper("a"))
    value = backend.fetch(REALM, [RowKey(1)])[RowKey(1)].value
    assert value.hex() == "0134468ebd81a474657874a161"


def _damage(backend: MemoryBackend, place: int) -> None:
    row = backend.fetch(REALM, [RowKey(1)])[RowKey(1)]
    value = bytearray(row.value)
    value[place] ^= 0xFF
    backend.write(REALM, [row._replace(value=bytes(value))])
