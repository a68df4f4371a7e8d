from __future__ import annotations

import msgspec
import pytest

from lakesweep.errors import DamagedError
from lakesweep.store.index import BYTES, LINKS, Packed
from lakesweep.store.objects.links import Link


class Size(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int


def test_bytes_stay_as_they_are() -> None:
    assert BYTES.decode(BYTES.encode(b"")) == b""


@pytest.mark.parametrize("id_", [0, 1, 2**63 - 1])
def test_ids_come_back(id_: int) -> None:
    assert len(LINKS.encode(Link(id_))) == 8
    assert LINKS.decode(LINKS.encode(Link(id_))) == id_


def test_ids_of_another_size_are_damage() -> None:
    with pytest.raises(DamagedError, match="8 bytes, not 7"):
        LINKS.decode(bytes(7))


def test_structs_come_back() -> None:
    codec = Packed(Size)
    assert codec.decode(codec.encode(Size("a", 5))) == Size("a", 5)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode({"name": 1})])
def test_structs_of_other_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedError, match="index value"):
        Packed(Size).decode(data)
