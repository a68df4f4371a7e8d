from __future__ import annotations

import msgspec
import pytest

from lakesweep.errors import DamagedRowError
from lakesweep.store.objects.links import IndexRoot, Link, Links, ValueKind, find_links
from lakesweep.store.objects.object_types import ObjectTypes, UnknownObject


class Shelf(msgspec.Struct, frozen=True):
    """Leads to others in every way that an object can."""

    first: Link
    more: tuple[Link, ...] = ()
    named: dict[str, Link] = {}
    books: IndexRoot = IndexRoot()
    place: int = 7


SHELF = Shelf(
    Link(1), (Link(2), Link(2**63 - 1)), {"a": Link(0)}, IndexRoot.of(b"abc", ValueKind.PACKED)
)


def test_links_and_indexes_come_back_as_such() -> None:
    types = ObjectTypes({"shelf": Shelf})
    name, payload = types.encode(SHELF)
    shelf = types.decode(name, payload)
    assert shelf == SHELF
    assert isinstance(shelf.books, IndexRoot)
    assert all(isinstance(link, Link) for link in (shelf.first, *shelf.more, shelf.named["a"]))


def test_links_are_found_without_knowing_the_type() -> None:
    _, payload = ObjectTypes({"shelf": Shelf}).encode(SHELF)
    unknown = ObjectTypes({}).decode("shelf", payload)
    assert unknown == UnknownObject("shelf", payload)
    assert find_links(payload) == Links(
        (Link(1), Link(2), Link(2**63 - 1), Link(0)), (SHELF.books,)
    )


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_link_is_an_id(number: int) -> None:
    with pytest.raises(ValueError, match="not an object id"):
        ObjectTypes({"shelf": Shelf}).encode(Shelf(Link(number)))


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        b"",
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"short")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(2, b"\x09")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(3, b"x")),
    ],
)
def test_bytes_that_lead_nobody_knows_where_are_damage(payload: bytes) -> None:
    with pytest.raises(DamagedRowError):
        find_links(payload)
