"""Deletes in a store whose conditions do not tell that an object was written again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.errors import DeniedError, UnavailableError
from lakesweep.storage.deleting.unchanged import delete_unchanged
from lakesweep.storage.memory import MemoryStore
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    expected_of,
)
from lakesweep.storage.wrappers.base import StoreWrapper

KEYS = [f"wh/t/{number:03}" for number in range(50)]


class Forgetful(StoreWrapper):
    """Compares nothing. `asked` are the requests that only read."""

    is_ordered = True
    hides_lists = False

    def __init__(self) -> None:
        super().__init__(MemoryStore("lake"))
        self.asked: list[str] = []
        for key in KEYS:
            self.store.write(key, b"x")

    @property
    def capabilities(self) -> StorageCapabilities:
        return replace(self.store.capabilities, detects_rewrites=False, ordered=self.is_ordered)

    def head(self, key: str) -> ObjectInfo:
        self.asked.append(f"head {key}")
        if key == "wh/t/away":
            raise UnavailableError(key, "does not answer")
        return self.store.head(key)

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        self.asked.append(f"list {prefix} after {after}")
        if self.hides_lists:
            raise DeniedError(prefix, "denied")
        return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        del expected
        return self.store.delete(keys)


def _expected(store: Forgetful, key: str, *, is_older: bool = False) -> Expected:
    info = store.store.head(key)
    assert info.modified is not None
    earlier = timedelta(hours=1) if is_older else timedelta()
    return expected_of(replace(info, modified=info.modified - earlier))


@pytest.mark.parametrize("kind", ["listed", "unordered", "hidden"])
def test_objects_that_were_written_again_stay(kind: str) -> None:
    store = Forgetful()
    store.is_ordered, store.hides_lists = kind != "unordered", kind == "hidden"
    rewritten = {KEYS[0], KEYS[7], KEYS[-1]}
    expected = [_expected(store, key, is_older=key in rewritten) for key in KEYS]
    found = delete_unchanged(store, KEYS, expected)
    assert [one.key for one in found] == KEYS
    assert {one.key for one in found if one.outcome is Outcome.CHANGED} == rewritten
    assert {one.outcome for one in found if one.key not in rewritten} == {Outcome.DELETED}
    if kind == "listed":
        assert store.asked == ["list wh/t/ after wh/t/000", "head wh/t/000"]


def test_an_object_that_cannot_be_looked_at_stays() -> None:
    store = Forgetful()
    store.store.write("wh/t/away", b"x")
    (found,) = delete_unchanged(store, ["wh/t/away"], [Expected(1, 1_000_000, "e")])
    assert (found.outcome, found.may_retry) == (Outcome.FAILED, True)


def test_what_is_gone_is_absent_and_what_nothing_is_known_of_is_deleted() -> None:
    store = Forgetful()
    known = _expected(store, KEYS[1])
    found = delete_unchanged(store, ["wh/gone", KEYS[1], KEYS[2]], [known, known, None])
    assert [one.outcome for one in found] == [Outcome.ABSENT, Outcome.DELETED, Outcome.DELETED]
