"""Keys on the wire: every spelling comes back as the one key that it means."""

from __future__ import annotations

from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.s3.keys import Encoding, UndecodableKeyError, decode, encode, fits_xml

keys = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=5)


@given(keys)
def test_form_encoded_keys_come_back(names: list[str]) -> None:
    assert decode([quote_plus(name) for name in names], Encoding.FORM) == names


@given(keys)
def test_percent_encoded_keys_come_back(names: list[str]) -> None:
    encoded = [quote(name, safe="/+") for name in names]
    assert decode(encoded, Encoding.PERCENT) == names


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_address_holds_the_key_and_nothing_that_could_be_misread(key: str) -> None:
    encoded = encode(key)
    assert unquote(encoded) == key
    assert not set(encoded) & set('?#+&= %\\"<>') - {"%"}
    assert encoded.isascii()


def test_raw_keys_are_left_alone() -> None:
    assert decode(["a%2Fb", "a+b"], Encoding.RAW) == ["a%2Fb", "a+b"]


def test_an_escaped_percent_sign_is_not_decoded_twice() -> None:
    assert decode(["a%252Fb", "%2525", "%2b%2B"], Encoding.PERCENT) == ["a%2Fb", "%25", "++"]


def test_a_key_with_the_separator_inside_stays_one_key() -> None:
    assert decode(["a%00b", "c%20d"], Encoding.PERCENT) == ["a\0b", "c d"]


@pytest.mark.parametrize("bad", ["100%", "%zz", "%F", "%FF", "%C3", "%ED%A0%80"])
def test_what_is_no_encoded_text_is_named(bad: str) -> None:
    with pytest.raises(UndecodableKeyError) as caught:
        decode(["good%20one", bad], Encoding.FORM)
    assert caught.value.encoded == bad


@pytest.mark.parametrize("key", ["a\tb", "a\nb", "é", "\U0001f600", "<&>"])
def test_keys_that_xml_can_carry(key: str) -> None:
    assert fits_xml(key)


@pytest.mark.parametrize("key", ["a\rb", "a\x01b", "a\0b", "\ufffe", "\uffff", "\ud800"])
def test_keys_that_xml_cannot_carry(key: str) -> None:
    assert not fits_xml(key)
