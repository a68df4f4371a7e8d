from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.marks.columns import MarkKind
from lakesweep.marks.file_level import FileLevel, MarkCollector
from lakesweep.marks.pointers import Pointer
from lakesweep.marks.unreadable import Tolerant
from lakesweep.marks.walk import Walk
from lakesweep.storage.stores import Keyring, Stores
from tests.unit.iceberg.test_mark_levels import pointers, rows

_BAD, _GOOD = "s3://lake/bad", "s3://lake/good"
_ERRORS = [
    MemoryError(),
    RecursionError(),
    OverflowError("int too big to convert"),
    pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    AssertionError("of a library"),
]


@dataclass(frozen=True)
class _Failing(FileLevel[bytes]):
    """Raises for one file, while it is read or while it is decoded."""

    error: Exception | None = None
    while_reading: bool = False

    def read(self, pointer: Pointer) -> bytes:
        if self.while_reading:
            self._fail(pointer)
        return b""

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        self._fail(pointer)
        outbox.close(pointer, 0)
        yield

    def _fail(self, pointer: Pointer) -> None:
        if pointer.path == _BAD and self.error:
            raise self.error


@pytest.mark.parametrize("while_reading", [True, False])
@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
def test_one_bad_file_is_a_problem_by_name_and_the_rest_is_read(
    error: Exception, while_reading: bool
) -> None:
    level = _Failing(Keyring(Stores()), error=error, while_reading=while_reading)
    found = list(level([pointers(IcebergKind.MANIFEST, _BAD, _GOOD)]))
    [problem] = rows(found, MarkKind.PROBLEM)
    assert problem["path"] == _BAD
    assert {row["path"] for row in rows(found, MarkKind.SOURCE)} == {_BAD, _GOOD}


@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
def test_a_walk_meets_a_bad_file_as_a_problem(error: Exception) -> None:
    tolerance = Tolerant()
    walk = Walk(Keyring(Stores()), tolerance)
    level = _Failing(walk.keyring, error=error)
    batch = pointers(IcebergKind.MANIFEST, _BAD, _GOOD)
    named = [path for one in walk.read(level, _pointers(batch)) for path in one["path"].to_pylist()]
    assert [problem.path for problem in tolerance.problems] == [_BAD]
    assert set(named) == {_BAD, _GOOD}


def _pointers(batch: pa.RecordBatch) -> Iterator[Pointer]:
    return (Pointer(**row) for row in batch.to_pylist())
