"""Changes that wait are made as one commit; each keeps its own checks and its own answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from lakesweep.catalog import Catalog, Create, Drop, Namespace, Update
from lakesweep.catalog.commits import BatchOutcome, Mutation, Remember
from lakesweep.catalog.warehouse.group_commit import GroupCommits
from lakesweep.errors import (
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    UnknownOutcomeError,
)
from tests.realms import names, open_shop, table

_SECONDS = 30


@pytest.fixture
def shop() -> Catalog:
    shop = open_shop()
    shop.apply([Create("n", Namespace())])
    return shop


def _commits(shop: Catalog) -> int:
    return len(list(shop.realm.log(shop.reference)))


def _create(name: str) -> list[Mutation]:
    return [Create(f"n.{name}", table(name))]


def test_batches_of_one_commit_do_not_share_failures(shop: Catalog) -> None:
    before = _commits(shop)
    outcomes = shop.attempt_all(
        [
            _create("a"),
            [*_create("b"), Drop("n.absent")],  # fails halfway
            _create("a"),  # the first one has it
            [*_create("b"), Update("n.a", table("a"), version=7)],
            _create("b"),  # free, since both before were undone
        ]
    )
    errors = [type(each.error) for each in outcomes]
    nothing = type(None)
    assert errors == [
        nothing,
        EntityMissingError,
        EntityExistsError,
        EntityChangedError,
        nothing,
    ]
    assert names(shop) == {"n": "namespace", "n/a": "table", "n/b": "table"}
    assert _commits(shop) == before + 1
    (newest, *_) = shop.realm.log(shop.reference)
    assert [each.action for each in newest.value.changes] == ["add", "add"]
    assert outcomes[0].commit == outcomes[4].commit == newest.id
    assert outcomes[1].commit is None


def test_a_request_is_carried_out_once(shop: Catalog) -> None:
    note = Remember(b"k" * 16, b"asked", b"answer")
    shop.apply([*_create("a"), note])
    with pytest.raises(EntityExistsError, match="carried out before"):
        shop.apply([*_create("b"), note])
    assert "n/b" not in names(shop)


class _Gate:
    """Holds up the first commit until others wait behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.open = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        self.error: Exception | None = None
        original = Catalog.attempt_all

        def attempt_all(
            catalog: Catalog, batches: Sequence[Sequence[Mutation]], **named: Any
        ) -> Sequence[BatchOutcome]:
            self.sizes.append(len(batches))
            self.began.set()
            assert self.open.wait(_SECONDS)
            outcomes = original(catalog, batches, **named)
            if self.error is not None and len(self.sizes) > 1:
                raise self.error
            return outcomes

        monkeypatch.setattr(Catalog, "attempt_all", attempt_all)


def _together(
    shop: Catalog, gate: _Gate, batches: Sequence[list[Mutation]]
) -> list[Future[BatchOutcome]]:
    """Send the first batch, and the others while it is being made."""
    groups = GroupCommits()
    with ThreadPoolExecutor(len(batches)) as pool:
        first = pool.submit(groups.apply, shop, batches[0], author="ann")
        assert gate.began.wait(_SECONDS)
        others = [pool.submit(groups.apply, shop, each, author="bob") for each in batches[1:]]
        place = (shop.realm.name, shop.reference)
        while len(groups._waiting[place]) < len(others):
            assert not any(each.done() for each in others)
        gate.open.set()
    return [first, *others]


def test_those_who_wait_commit_together(shop: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = _Gate(monkeypatch)
    batches = [_create("a"), _create("b"), _create("a"), _create("c")]
    first, second, third, fourth = _together(shop, gate, batches)
    assert gate.sizes == [1, 3]
    assert isinstance(third.exception(), EntityExistsError)
    assert first.result().commit != second.result().commit == fourth.result().commit
    assert {"n/a", "n/b", "n/c"} < set(names(shop))


def test_an_unknown_outcome_is_told_to_all(shop: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = _Gate(monkeypatch)
    gate.error = UnknownOutcomeError("gone")
    done = _together(shop, gate, [_create("a"), _create("b"), _create("c")])
    assert done[0].exception() is None
    assert [type(each.exception()) for each in done[1:]] == [UnknownOutcomeError] * 2
