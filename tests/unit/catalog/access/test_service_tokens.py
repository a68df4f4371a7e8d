from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from lakesweep.catalog.access.service_tokens import TYPES, ServiceRole, TokenBook
from lakesweep.clock import ManualClock
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON

DAY = timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def book(clock: ManualClock) -> Iterator[TokenBook]:
    with Store(MemoryBackend(), types=TYPES, clock=clock) as store:
        yield TokenBook(store.create_realm("acme"), clock)


def test_a_token_is_found_by_its_text_until_it_ends(book: TokenBook, clock: ManualClock) -> None:
    assert book.is_empty
    record, text = book.create("ci", ServiceRole.OPERATOR, NOON + DAY, "jane")
    assert text.startswith("lsw_")
    assert book.find(text) == record
    clock.sleep(DAY.total_seconds())
    assert book.find(text) is None


def test_a_book_that_had_a_token_is_never_empty_again(book: TokenBook) -> None:
    book.create("ci", ServiceRole.OPERATOR, NOON + DAY, "jane")
    book.revoke("ci", "jane")
    assert not book.is_empty


def test_the_secret_is_not_stored(book: TokenBook) -> None:
    _, text = book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    secret = text.rpartition("_")[2]
    stored = msgspec.msgpack.encode(book.list())
    assert secret.encode() not in stored


@pytest.mark.parametrize("change", [str.upper, lambda text: text[:-1], lambda text: text + "x"])
def test_a_text_that_is_almost_right_is_wrong(book: TokenBook, change: object) -> None:
    assert callable(change)
    _, text = book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    assert book.find(change(text)) is None
    assert book.find("lsw_") is None
    assert book.find("") is None


def test_a_revoked_token_gives_no_access(book: TokenBook) -> None:
    _, text = book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    _, other = book.create("cd", ServiceRole.VIEWER, NOON + DAY, "jane")
    assert book.revoke("ci", "joe").revoked_by == "joe"
    assert book.find(text) is None
    assert book.find(other) is not None
    with pytest.raises(NotFoundError):
        book.revoke("ci", "joe")


def test_of_two_tokens_with_one_name_the_id_decides(book: TokenBook) -> None:
    first, text = book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    with pytest.raises(UsageError, match="several"):
        book.revoke("ci", "joe")
    book.revoke(first.token, "joe")
    assert book.find(text) is None


def test_sessions_are_forgotten_after_their_end_and_tokens_are_not(
    book: TokenBook, clock: ManualClock
) -> None:
    book.create("ci", ServiceRole.ADMIN, NOON + DAY, "jane")
    book.create("session", ServiceRole.ADMIN, NOON + DAY, "etl", "etl")
    clock.sleep(timedelta(days=3).total_seconds())
    book.create("new", ServiceRole.ADMIN, clock.now() + DAY, "jane")
    assert [each.name for each in book.list()] == ["new", "ci"]


def test_a_token_ends_in_the_future(book: TokenBook) -> None:
    with pytest.raises(UsageError):
        book.create("ci", ServiceRole.ADMIN, NOON, "jane")


def test_a_role_covers_those_below_it() -> None:
    assert ServiceRole.ADMIN.covers(ServiceRole.VIEWER)
    assert ServiceRole.VIEWER.covers(ServiceRole.VIEWER)
    assert not ServiceRole.OPERATOR.covers(ServiceRole.APPROVER)
