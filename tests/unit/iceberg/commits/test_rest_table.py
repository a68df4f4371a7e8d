"""Commits to a REST catalog: what a server does in the window, and answers that never come."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import IncompleteError, NotFoundError
from lakesweep.iceberg.commits import rest_table
from lakesweep.iceberg.commits.rest_table import RestTable
from lakesweep.iceberg.commits.table_handle import CommitOutcome, CommitStatus, MetadataChange
from lakesweep.iceberg.document.updates import RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from tests import iceberg_commits as kinds
from tests.iceberg_commits import Template, append, expire, ids, roll_back, row_count, tag
from tests.moments import NOON
from tests.rest_catalog import WritableRestCatalog


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template.write(tmp_path_factory.mktemp("template"))


@pytest.fixture
def server() -> WritableRestCatalog:
    return WritableRestCatalog()


@pytest.fixture
def table(template: Template, server: WritableRestCatalog) -> Iterator[RestTable]:
    with kinds.rest(template, server) as handle:
        assert isinstance(handle, RestTable)
        yield RestTable(handle.adapter, handle.table, handle.stores, ManualClock(NOON))


def _expire(table: RestTable) -> CommitOutcome:
    base = table.load()
    change = expire(base)
    assert change is not None
    return table.commit(base, change)


def _once(server: WritableRestCatalog, action: Callable[[], object]) -> None:
    """Another writer comes when the server has the commit and has not begun with it."""

    def meanwhile() -> None:
        server.meanwhile = lambda: None
        action()

    server.meanwhile = meanwhile


def test_a_tag_that_the_server_drops_is_named(
    table: RestTable, server: WritableRestCatalog
) -> None:
    before = table.load()
    _once(server, lambda: tag(table, ids(before)[0], "legal hold"))
    outcome = _expire(table)
    assert outcome.status is CommitStatus.COMMITTED
    assert outcome.lost_refs == {"legal hold": ids(before)[0]}
    assert outcome.base is not None
    assert outcome.base.document.refs()["legal hold"].snapshot_id == ids(before)[0]


def test_a_ref_that_the_change_names_is_not_lost(table: RestTable) -> None:
    base = tag(table, ids(table.load())[0])
    updates = (RemoveSnapshotRef(ref_name="audit"), RemoveSnapshots(snapshot_ids=(ids(base)[0],)))
    outcome = table.commit(base, MetadataChange.of(base.document, updates))
    assert (outcome.status, outcome.lost_refs) == (CommitStatus.COMMITTED, {})


def test_a_tag_on_a_snapshot_that_stays_is_no_loss(
    table: RestTable, server: WritableRestCatalog
) -> None:
    before = table.load()
    _once(server, lambda: tag(table, ids(before)[-1]))
    outcome = _expire(table)
    assert (outcome.status, outcome.lost_refs) == (CommitStatus.COMMITTED, {})
    assert outcome.base is not None
    assert outcome.base.location != before.location


@pytest.mark.parametrize("writer", [append, lambda table: roll_back(table, ids(table.load())[0])])
def test_a_moved_ref_refuses_the_commit(
    table: RestTable, server: WritableRestCatalog, writer: Callable[[RestTable], object]
) -> None:
    _once(server, lambda: writer(table))
    assert _expire(table).status is CommitStatus.CONFLICT
    assert len(table.load().document.snapshots()) >= kinds.SNAPSHOTS


@pytest.mark.parametrize("trouble", ["loses", "garbles"])
def test_a_lost_answer_is_settled_by_looking(
    table: RestTable, server: WritableRestCatalog, trouble: str
) -> None:
    before = table.load()
    setattr(server, trouble, 1)
    outcome = _expire(table)
    assert (outcome.status, outcome.lost_refs) == (CommitStatus.COMMITTED, {})
    assert outcome.base is not None
    assert outcome.base.location == before.location
    assert row_count(table.load().location) == 2 * kinds.SNAPSHOTS
    assert len(server.removed) == 1


def test_a_lost_answer_and_a_lost_tag(table: RestTable, server: WritableRestCatalog) -> None:
    before = table.load()

    def meanwhile() -> None:
        tag(table, ids(before)[0])
        server.loses = 1

    _once(server, meanwhile)
    outcome = _expire(table)
    assert outcome.status is CommitStatus.COMMITTED
    assert outcome.lost_refs == {"audit": ids(before)[0]}


def test_a_failure_of_the_server_stays_unknown(
    table: RestTable, server: WritableRestCatalog
) -> None:
    server.fails = 1
    outcome = _expire(table)
    assert outcome.status is CommitStatus.UNKNOWN
    assert outcome.reason is not None
    assert "503" in outcome.reason
    assert server.removed == []


def test_a_failure_after_which_a_ref_moved_cannot_land(
    table: RestTable, server: WritableRestCatalog
) -> None:
    def meanwhile() -> None:
        append(table)
        server.fails = 1

    _once(server, meanwhile)
    assert _expire(table).status is CommitStatus.CONFLICT


def test_a_server_without_a_log_leaves_the_base_unknown(
    table: RestTable, server: WritableRestCatalog
) -> None:
    server.shows_log = False
    outcome = _expire(table)
    assert (outcome.status, outcome.base) == (CommitStatus.COMMITTED, None)


def test_a_server_that_takes_one_snapshot_in_each_update(
    table: RestTable, server: WritableRestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_table, "_MOST_SINGLE", 2)
    server.takes_one = True
    before = table.load()
    outcome = _expire(table)
    assert (outcome.status, server.removed) == (CommitStatus.COMMITTED, [2, 1])
    assert outcome.base is not None
    assert outcome.base.location == before.location
    # The next commit does not try again.
    append(table)
    asked = len(server.removed)
    assert _expire(table).status is CommitStatus.COMMITTED
    assert server.removed[asked:] == [1]


def test_the_token_of_a_table_is_shown_for_this_table_only(
    table: RestTable, server: WritableRestCatalog
) -> None:
    server.config = {"token": "of-this-table"}
    assert _expire(table).status is CommitStatus.COMMITTED
    server.config = {}
    append(table)
    assert server.shown_tokens[0] == "Bearer of-this-table"
    assert "of-this-table" not in server.shown_tokens[1]


def test_a_refusal_is_told(table: RestTable) -> None:
    base = table.load()
    update = SetSnapshotRef(ref_name="t", type="tag", snapshot_id=1)
    outcome = table.commit(base, MetadataChange((update,)))
    assert outcome.status is CommitStatus.REFUSED
    assert "does not exist" in (outcome.reason or "")
    assert table.load().location == base.location


def test_a_table_that_is_gone(table: RestTable, server: WritableRestCatalog) -> None:
    server.tables.clear()
    with pytest.raises(NotFoundError):
        table.load()


def test_a_server_that_is_gone_changed_nothing(template: Template) -> None:
    with kinds.rest(template) as table:
        base = table.load()
    change = expire(base)
    assert change is not None
    outcome = table.commit(base, change)
    assert outcome.status is CommitStatus.REFUSED
    with pytest.raises(IncompleteError):
        table.load()
