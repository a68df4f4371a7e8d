"""Expiries of the engine's tables through its JDBC catalog, compared with what the engine wrote."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from lakesweep.clock import ManualClock
from lakesweep.errors import RefusedError
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import CommitStatus, MetadataChange
from lakesweep.iceberg.document.updates import RemoveSnapshotRef, RemoveSnapshots, TableUpdate
from lakesweep.iceberg.table_identifier import IcebergTables
from lakesweep.storage.stores import Stores
from tests.expiry_lake import ExpiryCase, ExpiryLake, archived, expiry_cases, object_at
from tests.servers import S3Server

_numbers = count()
#: One case of each table, of those that change nothing but snapshots and refs.
_CASES = {
    case.table: case
    for case in reversed(expiry_cases())
    if case.answer["outcome"] == "expired"
    and not case.answer["arguments"]["clean_expired_metadata"]
    and not case.answer.get("removed_before_the_call")
    and not case.table.startswith(("attic.odd.", "attic.shop.registered"))
}


def _updates(case: ExpiryCase) -> list[TableUpdate]:
    refs: list[TableUpdate] = [
        RemoveSnapshotRef(ref_name=name) for name in case.answer["refs_removed"]
    ]
    return [*refs, RemoveSnapshots(snapshot_ids=tuple(case.answer["snapshots_removed"]))]


def _clock(case: ExpiryCase) -> ManualClock:
    return ManualClock(datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=case.now_ms))


@pytest.fixture(scope="module")
def stores() -> Stores:
    number = next(_numbers)
    memory = {name: f"memory://expiry-{number}-{name}/" for name in ("attic", "attic-cold")}
    lake = ExpiryLake(Path())
    opened = {f"s3://{name}": Stores().open(place) for name, place in memory.items()}
    for name in memory:
        lake.fill(name, opened[f"s3://{name}"])
    return Stores(replace=opened)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, stores: Stores) -> IcebergTables:
    database = tmp_path_factory.mktemp("catalog") / "catalog.db"
    database.write_bytes(archived()["catalog.db"])
    return IcebergTables(stores, {"attic": {"type": "sql", "uri": f"sqlite:///{database}"}})


@pytest.mark.parametrize("case", _CASES.values(), ids=str)
def test_the_engines_catalog_takes_the_commit(case: ExpiryCase, tables: IcebergTables) -> None:
    ref = case.table
    if ref.startswith("hdp."):
        ref = case.metadata_before.rpartition("/metadata/")[0]
    handle = open_table(tables, ref, clock=_clock(case), sole_writer=True)
    base = handle.load()
    assert base.location == case.metadata_before
    outcome = handle.commit(base, MetadataChange.of(base.document, _updates(case)))
    assert outcome.status is CommitStatus.COMMITTED
    now = handle.load()
    assert json.loads(now.document.encode()) == case.document_after()
    assert _without_uuid(now.location) == _without_uuid(case.answer["metadata_after"])


def _without_uuid(path: str) -> str:
    return re.sub(r"-[0-9a-f-]{36}", "", path)


def test_a_folder_of_the_engine_is_refused_by_default(tables: IcebergTables) -> None:
    case = _CASES["hdp.old.counts"]
    handle = open_table(tables, case.metadata_before.rpartition("/metadata/")[0])
    base = handle.load()
    with pytest.raises(RefusedError, match="no catalog"):
        handle.commit(base, MetadataChange.of(base.document, _updates(case)))


def test_a_table_in_s3_is_read_by_pyiceberg_afterwards(moto: S3Server, tmp_path: Path) -> None:
    case = _CASES["attic.shop.gz"]
    moto.make_bucket("attic")
    store = Stores({"s3://attic": moto.options()})
    place = "s3://attic/warehouse/shop/gz/"
    for name in archived():
        path = name.replace("buckets/", "s3://", 1)
        if path.startswith(place):
            store.open("s3://attic").write(path.removeprefix("s3://attic/"), object_at(path))
    (tmp_path / "catalog.db").write_bytes(archived()["catalog.db"])
    properties = {
        "s3.endpoint": moto.endpoint,
        "s3.region": moto.region,
        "s3.access-key-id": moto.access_key_id,
        "s3.secret-access-key": moto.secret_access_key,
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **properties}
    handle = open_table(IcebergTables(Stores(), {"attic": catalog}), case.table)
    base = handle.load()
    rows = len(StaticTable.from_metadata(base.location, properties).scan().to_arrow())
    outcome = handle.commit(base, MetadataChange.of(base.document, _updates(case)))
    assert outcome.status is CommitStatus.COMMITTED
    table = StaticTable.from_metadata(handle.load().location, properties)
    kept = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert kept == case.answer["snapshots_retained"]
    assert len(table.scan().to_arrow()) == rows > 0
