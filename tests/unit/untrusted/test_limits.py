from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError, FormatError, LakesweepError, LimitError, MissingError
from lakesweep.untrusted.limits import read_failure, reading

_PATH = "s3://lake/t/metadata/snap-1.avro"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RecursionError(),
        OverflowError("too big"),
        pa.ArrowCapacityError("too big"),
        pa.ArrowKeyError("gone"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ZeroDivisionError(),
        AssertionError(),
    ],
)
def test_whatever_goes_wrong_names_the_file(error: Exception) -> None:
    with pytest.raises(FormatError, match=r"snap-1\.avro"), reading(_PATH):
        raise error


def test_errors_of_our_own_stay_as_they_are() -> None:
    missing = MissingError("elsewhere")
    assert read_failure(_PATH, missing) is missing
    with pytest.raises(MissingError, match="elsewhere"), reading(_PATH):
        raise missing


def test_an_interrupt_is_no_damage() -> None:
    with pytest.raises(KeyboardInterrupt), reading(_PATH):
        raise KeyboardInterrupt


def test_too_little_memory_is_a_limit_and_not_damage() -> None:
    assert isinstance(read_failure(_PATH, MemoryError()), LimitError)
    assert isinstance(read_failure(_PATH, ValueError()), DamagedError)


def test_a_long_reason_is_cut() -> None:
    failure: LakesweepError = read_failure(_PATH, ValueError("x" * 10_000))
    assert len(failure.message) < 1000
