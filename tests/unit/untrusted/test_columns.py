from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError
from lakesweep.untrusted.columns import LARGEST_OBJECT, check_paths, check_sizes


@pytest.mark.parametrize("paths", [["a", None], ["a", ""], ["a", "b\0"], ["\0"]])
def test_paths_that_no_store_can_have_are_damage(paths: list[str | None]) -> None:
    with pytest.raises(DamagedError, match="manifest"):
        check_paths("manifest", pa.array(paths, pa.string()))


@pytest.mark.parametrize("paths", [[], ["a"], ["ä", "s3://lake/\N{PILE OF POO}"]])
def test_other_paths_are_fine(paths: list[str]) -> None:
    check_paths("manifest", pa.array(paths, pa.string()))


def test_only_the_bytes_of_a_slice_count() -> None:
    check_paths("manifest", pa.array(["a\0", "b", "c\0"]).slice(1, 1))


@pytest.mark.parametrize("size", [-1, LARGEST_OBJECT + 1, 2**63 - 1])
def test_sizes_that_no_object_has_are_damage(size: int) -> None:
    with pytest.raises(DamagedError, match="impossible file size"):
        check_sizes("manifest", pa.array([1, size]))


def test_sizes_may_be_unknown() -> None:
    check_sizes("manifest", pa.array([None, 0, LARGEST_OBJECT], pa.int64()))
    check_sizes("manifest", pa.array([], pa.int64()))
