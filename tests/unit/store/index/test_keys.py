from __future__ import annotations

import pytest

from lakesweep.errors import DamagedError
from lakesweep.store.index.keys import Component, component_end, decode, encode, prefix_end


class TestEncode:
    @pytest.mark.parametrize(
        ("components", "expected"),
        [
            ((), ""),
            (("",), "0200"),
            (("a\x00\x01", b"\xff"), "02610101010200" + "01ff00"),
            ((0, 1, 255, 256), "20" + "2101" + "21ff" + "220100"),
            ((-1, -255, -256), "1ffe" + "1f00" + "1efeff"),
            ((2**64 - 1, 1 - 2**64), "28" + "ff" * 8 + "18" + "00" * 8),
        ],
    )
    def test_has_fixed_bytes(self, components: tuple[Component, ...], expected: str) -> None:
        assert encode(components).hex() == expected
        assert decode(bytes.fromhex(expected)) == components

    def test_allows_2048_bytes_and_no_more(self) -> None:
        assert len(encode(("x" * 2046,))) == 2048
        with pytest.raises(ValueError, match="at most 2048 bytes"):
            encode(("x" * 2047,))

    def test_refuses_numbers_of_more_than_64_bits(self) -> None:
        with pytest.raises(ValueError, match="64 bits"):
            encode((2**64,))

    def test_refuses_half_a_surrogate_pair(self) -> None:
        with pytest.raises(ValueError, match="surrogates"):
            encode(("\ud800",))


class TestDecode:
    @pytest.mark.parametrize("key", ["02", "0261", "22ff", "29", "ff00", "02ff00"])
    def test_refuses_what_is_no_key(self, key: str) -> None:
        with pytest.raises(DamagedError, match="index key"):
            decode(bytes.fromhex(key))

    def test_finds_no_component_behind_the_end(self) -> None:
        with pytest.raises(DamagedError, match="should start"):
            component_end(encode(("a",)), 3)


def test_the_end_of_a_prefix_of_highest_bytes_is_open() -> None:
    assert prefix_end(b"") is None
    assert prefix_end(b"\xff\xff") is None
    assert prefix_end(b"a\xff") == b"b"
