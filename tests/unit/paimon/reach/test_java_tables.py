"""Every table that Java wrote, against what Java says of it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from lakesweep.marks.unreadable import Strict
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.live_files import state_files
from lakesweep.paimon.reach.walk import reached_files
from lakesweep.storage.stores import Stores
from tests.paimon import TABLES, JavaTable, JavaWarehouses

Found = list[tuple[str, str, int | None]]


@pytest.fixture(scope="module", params=TABLES)
def java(request: pytest.FixtureRequest, java_tables: JavaWarehouses) -> JavaTable:
    return java_tables.table(request.param)


@pytest.fixture(scope="module")
def table(java: JavaTable) -> PaimonTable:
    return PaimonTable.open(Stores(), str(java.folder))


@pytest.fixture(scope="module")
def found(java: JavaTable, table: PaimonTable) -> Found:
    return rows(java, reached_files(table, Strict()))


def rows(java: JavaTable, batches: Iterable[pa.RecordBatch]) -> Found:
    """(kind, path below the table, size) of every file."""
    files = (row for batch in batches for row in batch.to_pylist())
    return [
        (row["kind"], row["path"].removeprefix(f"{java.folder}/"), row["size_bytes"])
        for row in files
    ]


def test_a_table_reaches_what_java_references(java: JavaTable, found: Found) -> None:
    assert {(kind, path) for kind, path, _ in found} == java.referenced()


def test_no_file_comes_twice(found: Found) -> None:
    paths = [path for _, path, _ in found]
    assert len(set(paths)) == len(paths)


def test_what_is_reached_and_not_there_is_what_java_misses(java: JavaTable, found: Found) -> None:
    assert {path for _, path, _ in found} - java.stored() == java.missing()


def test_known_sizes_are_those_of_the_files(java: JavaTable, found: Found) -> None:
    known = {path: size for _, path, size in found if size is not None}
    there = known.keys() & java.stored()
    sizes = {path: (java.folder / path).stat().st_size for path in there}
    assert sizes == {path: known[path] for path in there}


def test_live_files_of_every_snapshot_and_tag_are_those_of_java(
    java: JavaTable, table: PaimonTable
) -> None:
    for owner, expected in java.live().items():
        branch, _, name = owner.partition(":")
        snapshot = state_of(table.find_branch(branch), name)
        found = rows(java, state_files(table.find_branch(branch), snapshot))
        paths = [path for kind, path, _ in found if kind != "index"]
        assert (owner, sorted(paths)) == (owner, sorted(expected))


def state_of(branch: PaimonBranch, name: str) -> PaimonSnapshot:
    kind, _, rest = name.partition("-")
    return branch.snapshot(int(rest)) if kind == "snapshot" else branch.tag(rest).snapshot
