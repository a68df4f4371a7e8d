"""The contract of backends, contention included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakesweep.errors import SchemaError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.contract import CHECKS
from lakesweep.store.backends.rows import ObjectRow, Reference
from lakesweep.store.backends.urls import open_backend


@pytest.fixture
def empty(url: str) -> Iterator[Backend]:
    """A backend without its tables."""
    backend = open_backend(url)
    yield backend
    backend.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_backend(check: Callable[[Backend], None], empty: Backend) -> None:
    empty.init_schema()
    check(empty)


def test_a_database_without_tables_says_how_to_get_them(empty: Backend) -> None:
    row, reference = ObjectRow(1, 0, "thing", 5, 1, b""), Reference("main", None, 0, 5)
    for call in (
        empty.check_schema,
        empty.realms,
        lambda: empty.write("acme", [row]),
        lambda: empty.insert_row("acme", row),
        lambda: empty.insert_reference("acme", reference),
        lambda: empty.fetch_references("acme", ["main"]),
    ):
        with pytest.raises(SchemaError) as caught:
            call()
        assert caught.value.hint == "lakesweep store init creates the tables"
    empty.init_schema()
    assert list(empty.realms()) == []


def test_many_may_create_the_tables_at_once(url: str) -> None:
    backends = [open_backend(url) for _ in range(8)]
    with ThreadPoolExecutor(len(backends)) as pool:
        list(pool.map(lambda backend: backend.init_schema(), backends))
    for backend in backends:
        backend.check_schema()
        backend.close()
