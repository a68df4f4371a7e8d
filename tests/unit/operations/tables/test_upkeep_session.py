"""What the tables of one run share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest, IcebergExpiryResult
from lakesweep.operations.upkeep.iceberg_expiry import expire_tables
from lakesweep.storage.address import identity
from lakesweep.sweep.roots.iceberg import CatalogRoots
from lakesweep.upkeep.proposal import ExpiryTerms
from tests.iceberg_expiries import AtticApp, agree
from tests.unit.operations.upkeep.test_iceberg_expiry import case_named
from tests.unit.upkeep.test_file_index import deletable
from tests.unit.upkeep.test_snapshot_retention import arguments_of

CASES = [case_named(f"attic.shop.{name}.head-only") for name in ("cow", "mor")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The catalogs that were asked for all their tables."""
    collect, asked = CatalogRoots.collect, list[str]()

    def counted(self: CatalogRoots) -> Iterator[Any]:
        asked.append(self.name)
        return collect(self)

    monkeypatch.setattr(CatalogRoots, "collect", counted)
    return asked


def expired(attic: AtticApp, *, dry_run: bool) -> list[IcebergExpiryResult]:
    request = ExpireTablesRequest(
        refs=tuple(case.table for case in CASES),
        terms=ExpiryTerms(arguments_of(CASES[0])),
        dry_run=dry_run,
    )
    found = [*expire_tables(attic.app, request, agree)]
    assert all(isinstance(each, IcebergExpiryResult) for each in found), found
    return [each for each in found if isinstance(each, IcebergExpiryResult)]


def test_previews_of_all_tables_ask_a_catalog_once(asked: list[str], tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, CASES[0].now_ms)
    results = expired(attic, dry_run=True)
    assert len(asked) == 1
    assert [sum(each.deleted.values()) for each in results] == [
        len(deletable(case)) for case in CASES
    ]


def test_every_table_asks_again_before_its_files_go(asked: list[str], tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, CASES[0].now_ms)
    before = attic.stored()
    expired(attic, dry_run=False)
    # What roots reference, and whether one moved while that was read.
    assert len(asked) == 1 + 2 * len(CASES)
    gone = {identity(path) for path in before - attic.stored()}
    assert gone == set.union(*(deletable(case) for case in CASES))
