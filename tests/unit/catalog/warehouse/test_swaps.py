"""Swaps that get no answer: settled where that is possible, and never called refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from lakesweep.app import App
from lakesweep.catalog import Catalog, Create, EntityType, Namespace
from lakesweep.catalog.warehouse.metadata_files import MetadataFiles
from lakesweep.catalog.warehouse.problems import WarehouseError
from lakesweep.catalog.warehouse.tables import (
    NewTableRequest,
    TableChange,
    commit_tables,
    create_table,
)
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse
from lakesweep.config.file import config_from_values
from lakesweep.errors import LakesweepError, UnknownOutcomeError, UnreachableError
from lakesweep.operations.catalogs.views import open_catalogs

SCHEMA = Raw(b'{"type":"struct","fields":[{"id":1,"name":"a","type":"long","required":true}]}')
PATH = ("n", "t")
Apply = Callable[..., Any]


@pytest.fixture
def warehouse(tmp_path: Path) -> IcebergWarehouse:
    app = App(config_from_values({"store": {"url": "memory:"}}), folder=tmp_path)
    assert app.runs is not None  # creates the realm
    catalog = open_catalogs(app, None).create("shop", location=f"file://{tmp_path}/shop")
    catalog.apply([Create("n", Namespace())])
    made = IcebergWarehouse(catalog, MetadataFiles(app.stores), app.clock)
    create_table(made, ("n",), NewTableRequest(name="t", schema=SCHEMA))
    return made


def _commit(warehouse: IcebergWarehouse, key: str) -> None:
    updates = Raw(b'[{"action":"set-properties","updates":{"%s":"1"}}]' % key.encode())
    commit_tables(warehouse, [TableChange.decode(PATH, Raw(b"[]"), updates)])


def _files(folder: Path) -> int:
    return len(list((folder / "shop").rglob("*.metadata.json")))


def _log(warehouse: IcebergWarehouse) -> int:
    return len(warehouse.load(PATH, EntityType.TABLE).file.document.metadata_log())


def _failing(
    monkeypatch: pytest.MonkeyPatch, error: LakesweepError, times: int, *, lands: bool
) -> None:
    """Let commits of the store fail, before or after they took effect."""
    apply: Apply = Catalog.attempt_all
    left = [times]

    def fail(self: Catalog, *given: Any, **named: Any) -> Any:
        if left[0] == 0:
            return apply(self, *given, **named)
        left[0] -= 1
        if lands:
            apply(self, *given, **named)
        raise error

    monkeypatch.setattr(Catalog, "attempt_all", fail)


@pytest.mark.parametrize("lands", [True, False])
def test_an_unknown_swap_is_settled(
    warehouse: IcebergWarehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lands: bool
) -> None:
    _failing(monkeypatch, UnknownOutcomeError("gone"), 1, lands=lands)
    _commit(warehouse, "a")
    assert (_log(warehouse), _files(tmp_path)) == (1, 2)


def test_what_stays_unknown_is_called_so_and_keeps_its_file(
    warehouse: IcebergWarehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _failing(monkeypatch, UnknownOutcomeError("gone"), 9, lands=False)
    with pytest.raises(WarehouseError, match="not known") as raised:
        _commit(warehouse, "a")
    assert raised.value.type == "CommitStateUnknownException"
    assert _files(tmp_path) == 2


def test_a_sure_failure_leaves_no_file(
    warehouse: IcebergWarehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _failing(monkeypatch, UnreachableError("away"), 9, lands=False)
    with pytest.raises(UnreachableError):
        _commit(warehouse, "a")
    assert _files(tmp_path) == 1
