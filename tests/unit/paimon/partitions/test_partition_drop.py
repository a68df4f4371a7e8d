"""What the commit that drops a partition says, and hands on."""

from __future__ import annotations

from typing import Any

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import TruncatedError
from lakesweep.marks.unreadable import Strict
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.paimon.reach.claims import OwnerClaim, read_claim
from lakesweep.paimon.reach.owners import list_owner_files
from lakesweep.paimon.reach.walk import reached_files
from tests.moments import NOON
from tests.paimon_states import index_names, live_files
from tests.paimon_tables import File, Index, Table

FIRST, SECOND = (encode_row([value], [parse_type("STRING")]) for value in ("a", "b"))


def _table() -> Table:
    return Table(partition_keys=["k"])


def _commit(made: Table, branch: str = "", **fields: Any) -> None:
    added = [File("x", partition=FIRST), File("y", partition=SECOND)]
    made.snapshot(1, made.manifest(*added), branch=branch, **fields)


def _branch(made: Table, name: str = "main") -> PaimonBranch:
    return PaimonTable.open(made.bucket.stores, made.address, ManualClock(NOON)).branch(name)


def _drop(made: Table, branch: str = "main") -> PaimonSnapshot:
    snapshot = drop_partitions(_branch(made, branch), lambda _: [FIRST]).snapshot
    assert snapshot is not None
    return snapshot


def test_watermark_properties_and_rows_are_handed_on() -> None:
    made = _table()
    said: dict[str, Any] = {"watermark": -(2**63), "properties": {"sequence": "7"}, "nextRowId": 5}
    _commit(made, totalRecordCount=2, **said)
    raw = _drop(made).raw
    assert {name: raw[name] for name in said} == said
    assert (raw["totalRecordCount"], raw["deltaRecordCount"]) == (1, -1)
    assert "operation" not in raw


@pytest.mark.parametrize(("schema_id", "kept"), [(0, "stat-1"), (1, None)])
def test_statistics_are_handed_on_while_the_schema_is_the_same(
    schema_id: int, kept: str | None
) -> None:
    made = _table()
    _commit(made, statistics="stat-1")
    made.schema(schema_id)
    snapshot = _drop(made)
    assert (snapshot.schema_id, snapshot.statistics) == (schema_id, kept)


def test_the_rows_of_a_snapshot_that_does_not_say_them_are_counted() -> None:
    made = _table()
    _commit(made)
    assert _drop(made).total_record_count == 1


def test_time_never_runs_backwards_from_one_snapshot_to_the_next() -> None:
    made = _table()
    future = int(NOON.timestamp() * 1000) + 5_000
    _commit(made, timeMillis=future)
    assert _drop(made).time_millis == future


def test_index_files_of_other_partitions_stay() -> None:
    made = _table()
    files = [Index("i-1", partition=FIRST), Index("i-2", "DELETION_VECTORS", partition=SECOND)]
    _commit(made, indexManifest=made.index_manifest(*files))
    snapshot = _drop(made)
    assert index_names(_branch(made).table, snapshot) == {"i-2"}


def test_an_index_manifest_that_does_not_change_is_not_written_again() -> None:
    made = _table()
    name = made.index_manifest(Index("i-2", partition=SECOND))
    _commit(made, indexManifest=name)
    assert _drop(made).index_manifest == name


def test_a_drop_on_a_branch_leaves_the_main_branch_alone() -> None:
    made = _table()
    _commit(made)
    made.schema(branch="dev")
    _commit(made, branch="dev")
    assert _drop(made, "dev").id == 2
    assert _branch(made).snapshot_ids() == [1]
    branch = _branch(made, "dev")
    assert branch.snapshot_ids() == [1, 2]
    assert branch.hint("snapshot", "LATEST") == 2
    assert set(live_files(branch.table, branch.snapshot(2))) == {"k=b/bucket-0/y"}


def test_gaps_and_stale_hints_do_not_lead_astray() -> None:
    made = _table()
    _commit(made)
    made.write("snapshot/LATEST", b"0")
    made.write("snapshot/EARLIEST", b"nonsense")
    assert _drop(made).id == 2


def _hashed(rows: int) -> Table:
    made = _table()
    made.schema(primaryKeys=["id", "k"], options={"bucket": "-1"})
    _commit(made, indexManifest=made.index_manifest(), totalRecordCount=rows)
    return made


def test_an_index_manifest_that_lost_its_entries_is_not_handed_on() -> None:
    with pytest.raises(TruncatedError, match="names no index file"):
        _drop(_hashed(rows=2))


def test_a_table_without_rows_needs_no_index() -> None:
    made = _hashed(rows=0)
    table = _branch(made).table
    assert list(reached_files(table, Strict()))
    owners = [file.read() for file in list_owner_files(table)]
    assert [read_claim(table, OwnerClaim.of(owner)).index_paths for owner in owners] == [()]


def test_who_stays_holds_on_to_nothing_by_an_index_manifest_that_lost_its_entries() -> None:
    table = _branch(_hashed(rows=2)).table
    (owner,) = (file.read() for file in list_owner_files(table))
    with pytest.raises(TruncatedError, match="names no index file"):
        read_claim(table, OwnerClaim.of(owner))
