from __future__ import annotations

import pytest

from lakesweep.errors import DamagedRowError
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.objects.object_types import UnknownObject
from lakesweep.store.realms.payloads import PAGE_BYTES, PAGE_ROWS, PageSizer, Payload, Payloads
from tests.libraries import LARGE, open_store


def test_objects_come_in_the_order_of_their_ids_asked_for() -> None:
    realm = open_store().create_realm("acme")
    for number in range(1, 4):
        realm.objects.write(number, UnknownObject("alien", b"%d" % number))
    found = list(Payloads(realm).read([3, 9, 1]))
    assert [each and each.payload for each in found] == [b"3", None, b"1"]


def test_a_large_object_comes_whole_with_all_that_is_known_of_it() -> None:
    realm = open_store().create_realm("acme")
    stored = realm.objects.write(5, UnknownObject("alien", bytes(LARGE)))
    [found] = Payloads(realm).read([5])
    assert found == Payload(5, "alien", stored.created_at, None, bytes(LARGE))


def test_a_missing_part_is_damage() -> None:
    realm = open_store().create_realm("acme")
    realm.objects.write(5, UnknownObject("alien", bytes(LARGE)))
    realm.backend.delete("acme", [RowKey(5, 1)])
    with pytest.raises(DamagedRowError, match="object 5: part 1 of 3 is missing"):
        list(Payloads(realm).read([5]))


def test_pages_grow_up_to_their_bytes() -> None:
    pages = PageSizer()
    for _ in range(10):
        pages.learn(pages.rows, pages.rows * PAGE_BYTES // 200)
    assert pages.rows == 200


def test_pages_grow_up_to_their_rows() -> None:
    pages = PageSizer()
    for _ in range(10):
        pages.learn(pages.rows, pages.rows)
    assert pages.rows == PAGE_ROWS


def test_pages_shrink_at_once_but_never_to_nothing() -> None:
    pages = PageSizer()
    pages.learn(2, 100 * PAGE_BYTES)
    assert pages.rows == 1
