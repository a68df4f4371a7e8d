"""Processes that change one catalog in mixed batches, while others look at it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakesweep.bench.processes import fresh_processes
from lakesweep.catalog import (
    TYPES,
    Catalog,
    CatalogPolicy,
    Catalogs,
    Create,
    Drop,
    GenericTable,
    Namespace,
    Rename,
    Update,
    View,
)
from lakesweep.catalog.commits import Mutation
from lakesweep.errors import EntityChangedError
from lakesweep.store import Store
from tests.realms import table

WRITERS = 8
BATCHES = 5


def _batch(writer: int, step: int) -> list[Mutation]:
    """From one state of a writer's namespace to the next: all of it is step's, or step - 1's."""
    here = f"w{writer}"
    body = CatalogPolicy(type="state", content=str(step))
    if step == 0:
        view = View(metadata_location=f"s3://lake/{here}/v/metadata/0.json")
        return [
            Create(here, Namespace()),
            Create(f"{here}.state", body),
            Create(f"{here}.ns0", Namespace()),
            Create(f"{here}.ns0.table", table(f"{here}/t")),
            Create(f"{here}.v0", view),
        ]
    last = step - 1
    return [
        Rename(f"{here}.ns{last}", f"{here}.ns{step}"),
        Update(f"{here}.ns{step}.table", table(f"{here}/t", step + 1)),
        Drop(f"{here}.v{last}"),
        Create(f"{here}.v{last}", GenericTable(format="x", location=f"s3://g/{here}/{step}")),
        Rename(f"{here}.v{last}", f"{here}.v{step}"),
        Update(f"{here}.state", body),
        *([Drop(f"{here}.old")] if step > 1 else []),
        Create(f"{here}.old", CatalogPolicy(type="old", content=str(last))),
    ]


def _counted(catalog: Catalog) -> Mutation:
    """One more than there is; refused if somebody else counted meanwhile."""
    counter = catalog.snapshot(fresh=True).get("counter")
    assert isinstance(counter, CatalogPolicy)
    more = CatalogPolicy(type="counter", content=str(int(counter.content) + 1))
    return Update("counter", more, version=counter.version)


def _write(url: str, writer: int) -> None:
    with Store.open(url, types=TYPES) as store:
        catalog = Catalogs(store.realm("acme")).open("shop")
        for step in range(BATCHES):
            doomed = [*_batch(writer, step), Create("doomed", Namespace()), Drop("nothing")]
            assert catalog.attempt(doomed).error is not None
            while True:
                try:
                    catalog.apply([*_batch(writer, step), _counted(catalog)])
                    break
                except EntityChangedError:
                    continue


def _look(catalog: Catalog) -> int:
    """Check that one state is whole; how many batches are in it."""
    view = catalog.snapshot(fresh=True)
    found = dict(view.all())
    assert ("doomed",) not in found
    steps = 0
    for writer in range(WRITERS):
        here = f"w{writer}"
        mine = {path[1:] for path in found if path[0] == here and len(path) > 1}
        if not mine:
            continue
        state = view.get((here, "state"))
        assert isinstance(state, CatalogPolicy)
        step = int(state.content)
        old = {("old",)} if step else set()
        assert mine == {("state",), (f"ns{step}",), (f"ns{step}", "table"), (f"v{step}",)} | old
        orders = view.get((here, f"ns{step}", "table"))
        assert orders.version == step + 1
        steps += step + 1
    counter = view.get("counter")
    assert isinstance(counter, CatalogPolicy)
    assert int(counter.content) == steps
    return steps


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_observer_sees_all_of_a_batch_or_nothing(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    if database != "sqlite":
        url = str(request.getfixturevalue(f"{database}_databases").new_database())
    Store.create_tables(url)
    with Store.open(url, types=TYPES) as store:
        catalog = Catalogs(store.create_realm("acme")).create("shop")
        catalog.apply([Create("counter", CatalogPolicy(type="counter", content="0"))])
        fresh = fresh_processes()
        writers = [fresh.Process(target=_write, args=(url, each)) for each in range(WRITERS)]
        for writer in writers:
            writer.start()
        seen = set()
        try:
            while any(writer.is_alive() for writer in writers):
                seen.add(_look(catalog))
                time.sleep(0.02)
        finally:
            for writer in writers:
                writer.kill()
                writer.join()
        assert [writer.exitcode for writer in writers] == [0] * WRITERS
        assert _look(catalog) == WRITERS * BATCHES
        assert len(seen) > 3  # somebody did look in between
        commits = list(catalog.realm.log(catalog.reference))
        assert len(commits) == WRITERS * BATCHES + 2
