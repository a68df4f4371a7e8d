"""Other writers between the steps of an expiry: no ref is lost in silence, no live file goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import IncompleteError, LakesweepError, LeaseHeldError
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    LoadedTable,
    MetadataChange,
    TableHandle,
)
from lakesweep.iceberg.document.updates import SetSnapshotRef
from tests.expired_table import ExpiredTable, behind_rest

Step = Callable[[ExpiredTable, list[int]], None]


@pytest.fixture
def table(tmp_path: Path) -> ExpiredTable:
    return ExpiredTable.write(tmp_path)


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[ExpiredTable]:
    with behind_rest(tmp_path) as table:
        yield table


def append(table: ExpiredTable, _: list[int]) -> None:
    loaded = table.catalog.load_table("db.orders")
    loaded.append(loaded.scan().to_arrow())


def tag(table: ExpiredTable, victims: list[int]) -> None:
    loaded = table.catalog.load_table("db.orders")
    loaded.manage_snapshots().create_tag(victims[2], "new").commit()


def branch(table: ExpiredTable, victims: list[int]) -> None:
    loaded = table.catalog.load_table("db.orders")
    loaded.manage_snapshots().create_branch(victims[1], "dev").commit()


def rollback(table: ExpiredTable, victims: list[int]) -> None:
    loaded = table.catalog.load_table("db.orders")
    loaded.manage_snapshots().rollback_to_snapshot(victims[2]).commit()


class Between:
    """A handle that lets others in right before or right after its first commit."""

    def __init__(
        self, handle: TableHandle, before: Callable[[], object], after: Callable[[], object]
    ) -> None:
        self._handle, self._before, self._after = handle, [before], [after]
        self.name, self.load, self.expired_by = handle.name, handle.load, handle.expired_by

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        while self._before:
            self._before.pop()()
        outcome = self._handle.commit(base, change)
        while self._after:
            self._after.pop()()
        return outcome


def let_in(
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> None:
    def between(*args: Any, **others: Any) -> Between:
        return Between(open_table(*args, **others), before, after)

    monkeypatch.setattr("lakesweep.operations.upkeep.iceberg_expiry.open_table", between)


STEPS: list[Step] = [append, tag, branch, rollback]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("moment", ["before the lease", "before the commit"])
def test_what_happens_before_the_swap_counts(
    step: Step, moment: str, table: ExpiredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    victims = table.snapshots()[:-1]
    if moment == "before the commit":
        let_in(monkeypatch, before=lambda: step(table, victims))
        table.expire()
    else:
        table.expire(lambda _: step(table, victims))
    rows = table.rows()
    expected: dict[Step, dict[str, int]] = {
        append: {"main": 12},
        rollback: {"main": 9},
        tag: {"main": 6, "new": 9},
        branch: {"main": 6, "dev": 6},
    }
    assert rows == expected[step]
    assert not table.journals()


def test_an_append_before_the_deletes_loses_nothing(
    table: ExpiredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch, after=lambda: append(table, []))
    result = table.expire()
    assert table.rows() == {"main": 12}
    assert result.deleted["manifest-list"] == len(result.expired_snapshots)


def test_two_expiries_of_machines_with_stores_of_their_own_end_well(table: ExpiredTable) -> None:
    second = []
    table.expire(lambda _: second.append(table.expire(store="other.db")))
    assert second[0].expired_snapshots
    assert table.rows() == {"main": 6}
    assert len(table.snapshots()) == 1
    assert not table.journals()


def test_a_second_expiry_with_the_same_store_waits_for_the_lease(
    table: ExpiredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def again() -> None:
        with pytest.raises(LeaseHeldError) as error:
            table.expire()
        refused.append(error.value)

    let_in(monkeypatch, after=again)
    table.expire()
    assert refused
    assert table.rows() == {"main": 6}


def test_a_tag_that_a_server_drops_in_silence_is_named_and_nothing_is_deleted(
    remote: ExpiredTable,
) -> None:
    victim, files = remote.snapshots()[2], remote.files()
    lost = SetSnapshotRef(ref_name="audit", type="tag", snapshot_id=victim)
    assert remote.server is not None
    remote.server.meanwhile = _once(lambda: remote.change(lost))
    with pytest.raises(IncompleteError, match="removed audit") as error:
        remote.expire()
    assert remote.files() == files
    # The hint has the metadata to register again: with it, everything is there.
    base = error.value.hint.rpartition(" ")[2]
    remote.server.tables["db", "orders"] = base
    assert remote.rows() == {"main": 6, "audit": 9}
    assert not remote.journals()


def test_a_branch_that_moves_behind_a_server_is_a_conflict_and_decided_again(
    remote: ExpiredTable,
) -> None:
    victim = remote.snapshots()[2]
    moved = SetSnapshotRef(ref_name="main", type="branch", snapshot_id=victim)
    assert remote.server is not None
    remote.server.meanwhile = _once(lambda: remote.change(moved))
    remote.expire()
    assert remote.rows() == {"main": 9}


@pytest.mark.parametrize("failure", ["loses", "garbles", "fails"])
def test_a_server_without_a_clear_answer_loses_nothing(failure: str, remote: ExpiredTable) -> None:
    assert remote.server is not None
    setattr(remote.server, failure, 1)
    try:
        remote.expire()
    except LakesweepError as error:
        assert error.exit_code == 4  # noqa: PT017 — either is right, and both must be safe
    assert remote.rows() == {"main": 6}
    remote.expire()
    assert remote.rows() == {"main": 6}
    assert len(remote.snapshots()) == 1
    assert not remote.journals()


def _once(call: Callable[[], None]) -> Callable[[], None]:
    left = [call]

    def once() -> None:
        if left:
            left.pop()()

    return once
