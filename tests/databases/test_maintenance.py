"""Maintenance beside a writer that never rests."""

from __future__ import annotations

from lakesweep.store.backends.urls import open_backend
from tests.maintained import prove_beside_a_writer


def test_nothing_in_use_goes_while_somebody_commits(url: str) -> None:
    backend = open_backend(url)
    backend.init_schema()
    prove_beside_a_writer(backend, every=5)
    backend.close()
