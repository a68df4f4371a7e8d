"""Addresses of any text: nothing is lost, joined or decoded on the way."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.address import folder_identity, identities, identity, parse

AZURE = "c@acc.dfs.core.windows.net/"
BASES = st.sampled_from(
    [
        *("s3://b/", "s3a://b/", "S3N://b/", "gs://b/", "gcs://b/", "memory://m/"),
        *("/", "file:///", "file://localhost/"),
        *(f"abfss://{AZURE}", f"abfs://{AZURE}", "wasbs://c@acc.blob.core.windows.net/"),
        *("https://acc.blob.core.windows.net/c/", "https://acc.dfs.core.windows.net/c/"),
    ]
)
KEYS = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="a/.%2F:@ \n\u00e9\u212a\u017f", max_size=12),
    BASES,
)


@given(BASES, KEYS)
def test_an_address_is_its_base_and_its_key(base: str, key: str) -> None:
    address = parse(base + key)
    assert (address.base, address.key) == (base, key)


@given(BASES, KEYS)
def test_an_identity_ends_in_the_untouched_key(base: str, key: str) -> None:
    address = parse(base + key)
    assert address.identity == identity(address.base) + address.key
    assert address.identity.startswith(address.store_id)


@given(BASES, KEYS)
def test_an_identity_is_its_own_identity(base: str, key: str) -> None:
    once = identity(base + key)
    assert identity(once) == once


@given(BASES, KEYS, KEYS)
def test_two_keys_are_never_one(base: str, one: str, other: str) -> None:
    same = identity(base + one) == identity(base + other)
    assert same == (one == other)


@given(st.lists(st.one_of(st.builds("{}{}".format, BASES, KEYS), KEYS), max_size=8))
def test_a_column_has_the_identities_of_its_values(paths: list[str]) -> None:
    assert identities(pa.array(paths, pa.string())).to_pylist() == [identity(p) for p in paths]


@given(BASES, KEYS, KEYS)
def test_a_folder_holds_what_lies_below_it_and_nothing_beside_it(
    base: str, folder: str, name: str
) -> None:
    location = folder_identity(base + folder)
    assert folder_identity(location + name).startswith(location)
    if not folder.endswith("/") and folder and not name.startswith("/"):
        assert not folder_identity(f"{base}{folder}x/{name}").startswith(location)
