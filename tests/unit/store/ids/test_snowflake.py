from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakesweep.store.ids import decompose, describe
from lakesweep.store.ids.snowflake import LAST_MILLISECOND, compose, millisecond_of, moment_of


class TestCompose:
    def test_lays_the_bits_out_as_41_10_and_12(self) -> None:
        assert compose(1, 0, 0) == 1 << 22
        assert compose(0, 1, 0) == 1 << 12
        assert compose(0, 0, 1) == 1
        assert compose(LAST_MILLISECOND, 1023, 4095) == 2**63 - 1

    def test_counts_from_march_2025(self) -> None:
        assert millisecond_of(datetime(2025, 3, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1000
        assert moment_of(1001) == datetime(2025, 3, 1, 0, 0, 1, 1000, tzinfo=UTC)

    @pytest.mark.parametrize("parts", [(-1, 0, 0), (2**41, 0, 0), (0, 1024, 0), (0, 0, 4096)])
    def test_refuses_what_does_not_fit(self, parts: tuple[int, int, int]) -> None:
        with pytest.raises(ValueError, match=r"does not fit|is not between|out of range"):
            compose(*parts)


class TestDecompose:
    def test_gives_back_what_was_composed(self) -> None:
        assert decompose(compose(123_456_789, 513, 77)) == (123_456_789, 513, 77)

    @pytest.mark.parametrize("id_", [-1, 2**63])
    def test_refuses_what_is_no_id(self, id_: int) -> None:
        with pytest.raises(ValueError, match="is not an id"):
            decompose(id_)


def test_describe_names_the_moment_the_node_and_the_number() -> None:
    id_ = compose(86_400_001, 9, 2)
    assert describe(id_) == f"{id_}: 2025-03-02T00:00:00.001+00:00, node 9, number 2"
