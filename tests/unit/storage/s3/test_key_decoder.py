"""How a server spells its keys is found out by asking it, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lakesweep.errors import InexactKeyError
from lakesweep.storage.s3.keys import Encoding, KeyDecoder


@dataclass
class Bucket:
    """A witness that knows its keys."""

    keys: list[str] = field(default_factory=list)
    names: list[str] | None = None
    asked: list[str] = field(default_factory=list)

    def unencoded_names(self) -> list[str] | None:
        self.asked.append("names")
        return self.names

    def exists(self, key: str) -> bool:
        self.asked.append(key)
        return key in self.keys


def test_plain_names_need_no_question() -> None:
    bucket = Bucket()
    assert KeyDecoder("s3://b/").decode(["a/b", "c"], bucket) == ["a/b", "c"]
    assert bucket.asked == []


@pytest.mark.parametrize("key", ["a b", "a+b"])
def test_a_plus_is_what_the_unencoded_page_says(key: str) -> None:
    decoder = KeyDecoder("s3://b/")
    assert decoder.decode(["a+b", "dt%3D1"], Bucket(names=[key, "dt=1"])) == [key, "dt=1"]


def test_a_habit_is_found_out_once() -> None:
    decoder, bucket = KeyDecoder("s3://b/"), Bucket(names=["a b", "a+b"])
    assert decoder.decode(["a+b", "a%2Bb"], bucket) == ["a b", "a+b"]
    assert decoder.decode(["c+d%3D"], bucket) == ["c d="]
    assert bucket.asked == ["names"]


def test_escapes_alone_leave_the_meaning_of_a_plus_open() -> None:
    decoder = KeyDecoder("s3://b/")
    assert decoder.decode(["dt%3D1"], Bucket(names=["dt=1"])) == ["dt=1"]
    assert decoder.decode(["a+b"], Bucket(names=["a+b"])) == ["a+b"]
    assert decoder.decode(["c+d"], Bucket()) == ["c+d"]


def test_a_server_that_only_claims_to_encode_is_seen_through() -> None:
    decoder = KeyDecoder("s3://b/")
    assert decoder.decode(["a%2Fb", "100%"], Bucket(names=["a%2Fb", "100%"])) == ["a%2Fb", "100%"]


def test_single_objects_decide_where_the_page_cannot_be_had_unencoded() -> None:
    decoder = KeyDecoder("s3://b/")
    assert decoder.decode(["x%01", "a+b"], Bucket(keys=["a b", "x\x01"])) == ["x\x01", "a b"]


def test_single_objects_decide_where_the_page_has_changed() -> None:
    bucket = Bucket(keys=["a+b"], names=["a+b", "new"])
    assert KeyDecoder("s3://b/").decode(["a+b"], bucket) == ["a+b"]


@pytest.mark.parametrize("keys", [[], ["a b", "a+b"]])
def test_what_cannot_be_decided_is_refused_by_name(keys: list[str]) -> None:
    with pytest.raises(InexactKeyError, match=r"s3://b/a\+b.*several ways"):
        KeyDecoder("s3://b/").decode(["plain", "a+b"], Bucket(keys=keys))


@pytest.mark.parametrize("known", [None, Encoding.FORM])
def test_a_key_that_is_not_utf8_is_refused_by_name(known: Encoding | None) -> None:
    with pytest.raises(InexactKeyError, match="s3://b/k%FF"):
        KeyDecoder("s3://b/", known).decode(["k%FF"], Bucket(names=None))


def test_a_known_habit_needs_no_question() -> None:
    bucket = Bucket()
    assert KeyDecoder("s3://b/", Encoding.FORM).decode(["a+b%2B"], bucket) == ["a b+"]
    assert bucket.asked == []
