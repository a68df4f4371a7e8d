from __future__ import annotations

import pytest

from lakesweep.errors import NotFoundError, UsageError
from lakesweep.iceberg.table_identifier import is_address, metadata_path, split_identifier
from lakesweep.storage.stores import Stores


@pytest.mark.parametrize("ref", ["s3://b/t", "/data/t", "file:/data/t", "abfss://c@a/t"])
def test_addresses_are_told_from_names(ref: str) -> None:
    assert is_address(ref)


@pytest.mark.parametrize(
    ("ref", "parts"),
    [
        ("prod.shop.orders", ("prod", "shop", "orders")),
        ("prod.a.b.c.orders", ("prod", "a", "b", "c", "orders")),
        ('prod.shop."a.b"', ("prod", "shop", "a.b")),
        ('"my.catalog".ns.t', ("my.catalog", "ns", "t")),
    ],
)
def test_names_have_a_catalog_namespaces_and_a_table(ref: str, parts: tuple[str, ...]) -> None:
    assert not is_address(ref)
    assert split_identifier(ref) == parts


@pytest.mark.parametrize("ref", ["orders", "shop.orders", "a..b", ".a.b", "a.b.", 'a.b."c', ""])
def test_other_words_are_refused(ref: str) -> None:
    with pytest.raises(UsageError, match="neither"):
        split_identifier(ref)


@pytest.mark.parametrize("name", ["v7.metadata.json", "v7.gz.metadata.json"])
def test_a_folder_stands_for_the_version_that_its_hint_names(name: str) -> None:
    stores = Stores()
    store = stores.open(f"memory://refs-{name}/")
    store.write("t/metadata/version-hint.text", b"7\n")
    store.write(f"t/metadata/{name}", b"{}")
    found = metadata_path(stores, f"memory://refs-{name}/t")
    assert found == f"memory://refs-{name}/t/metadata/{name}"


def test_versions_after_a_hint_that_lags_are_found() -> None:
    stores = Stores()
    store = stores.open("memory://refs-lagging/")
    store.write("t/metadata/version-hint.text", b"7")
    for name in (
        "v7.metadata.json",
        "v8.gz.metadata.json",
        "v9.metadata.json",
        "v11.metadata.json",
    ):
        store.write(f"t/metadata/{name}", b"{}")
    assert metadata_path(stores, "memory://refs-lagging/t").endswith("/v9.metadata.json")


def test_a_hint_that_leads_nowhere_is_not_followed_elsewhere() -> None:
    stores = Stores()
    store = stores.open("memory://refs-nowhere/")
    store.write("t/metadata/version-hint.text", b"7")
    store.write("t/metadata/v8.metadata.json", b"{}")
    with pytest.raises(NotFoundError, match="'7'"):
        metadata_path(stores, "memory://refs-nowhere/t/")
