"""Realms with catalogs for tests, in memory."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.catalog import TYPES, Catalog, Catalogs, Table
from lakesweep.clock import ManualClock
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON


def open_catalogs(backend: Backend | None = None, clock: ManualClock | None = None) -> Catalogs:
    """What the realm `acme` of a new store holds: nothing yet."""
    clock = clock or ManualClock(NOON)
    store = Store(backend or MemoryBackend(), types=TYPES, clock=clock)
    return Catalogs(store.create_realm("acme"))


def open_shop(*, keep_dropped: timedelta = timedelta(days=7)) -> Catalog:
    """An empty catalog."""
    return open_catalogs().create("shop", location="s3://lake/shop", keep_dropped=keep_dropped)


def table(folder: str, version: int = 1) -> Table:
    """A table with its files in a folder of the lake."""
    return Table(
        metadata_location=f"s3://lake/shop/{folder}/metadata/{version:05}.metadata.json",
        location=f"s3://lake/shop/{folder}",
    )


def names(catalog: Catalog) -> dict[str, str]:
    """Everything in a catalog: kinds, by paths."""
    view = catalog.snapshot(fresh=True)
    return {"/".join(path): found.named.kind.value for path, found in view.all()}
