"""Dropping and expiring partitions from the command line, local and behind S3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakesweep.app import App
from lakesweep.clock import ManualClock
from lakesweep.config import Config
from lakesweep.errors import RefusedError
from lakesweep.operations.tables.paimon_partitions import ExpirePartitionsRequest, expire_partitions
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.stores import Stores
from tests.command import Done, Lakesweep
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_states import live_files, newest
from tests.servers import S3Server

BUCKET = "paimon-partitions"


@pytest.fixture
def lakesweep(capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd)


@pytest.fixture
def days(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    """Four days, one of them far away, null, and what is no day."""
    return java_tables.table("append_dt").copy_to(tmp_path)


def _drop(lakesweep: Lakesweep, table: JavaTable, *words: str) -> Done:
    return lakesweep("paimon", "drop-partition", str(table.folder), *words)


def _expire(lakesweep: Lakesweep, table: JavaTable, *words: str) -> Done:
    return lakesweep("paimon", "expire-partitions", str(table.folder), *words)


def _partitions(address: str, stores: Stores | None = None) -> set[str]:
    table = PaimonTable.open(stores or Stores(), address)
    return {path.rpartition("/bucket-")[0] for path in live_files(table, newest(table))}


def test_a_dry_run_changes_nothing_and_shows_what_a_drop_then_drops(
    lakesweep: Lakesweep, days: JavaTable
) -> None:
    before = days.stored()
    specs = ("dt=2021-03-01", "dt=__DEFAULT_PARTITION__")
    dry = _drop(lakesweep, days, *specs, "--dry-run").document
    assert days.stored() == before
    done = _drop(lakesweep, days, *specs, "--yes").document
    assert dry == {**done, "snapshot": None, "dry_run": True}
    assert done["snapshot"] == 9
    assert (done["partitions"], done["files"], done["rows"]) == (2, 2, 5)
    assert before < days.stored()
    assert (days.folder / "snapshot" / "LATEST").read_text() == "9"
    assert _partitions(str(days.folder)) == {
        "dt=2021-03-02", "dt=2021-03-03", "dt=2021-03-04", "dt=2999-01-01", "dt=not-a-date",
    }  # fmt: skip


def test_odd_values_are_dropped_by_value_and_by_folder(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = java_tables.table("odd_parts").copy_to(tmp_path)
    specs = ("k=x/y", "k=100%25", "k=k=v", "k=%2F", "k=a b", "k=ünï-日本", "k=..", "k=")
    done = _drop(lakesweep, table, *specs, "--yes").document
    assert {each["partition"] for each in done["dropped"]} == {
        "k=x%2Fy", "k=100%25", "k=k%3Dv", "k=%252F", "k=a b", "k=ünï-日本", "k=..",
        "k=__DEFAULT_PARTITION__",
    }  # fmt: skip
    assert "k=__DEFAULT_PARTITION__" in _partitions(str(table.folder))


@pytest.mark.parametrize(
    ("name", "words", "code", "text"),
    [
        ("append_dt", ("day=2021-03-01",), 2, "no partition key 'day'"),
        ("append_dt", ("dt=2021-03-01,hr=5",), 2, "no partition key 'hr'"),
        ("append_int", ("p=one",), 2, "'one' is not a value of type INT"),
        ("append_plain", ("dt=1",), 2, "not partitioned"),
        ("append_dt", ("dt=2021-03-01",), 3, "no terminal"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_changed(
    lakesweep: Lakesweep,
    java_tables: JavaWarehouses,
    tmp_path: Path,
    name: str,
    words: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    table = java_tables.table(name).copy_to(tmp_path)
    before = table.stored()
    done = _drop(lakesweep, table, *words)
    assert (done.code, text in done.error["message"]) == (code, True)
    assert table.stored() == before


def test_a_folder_without_a_table_is_not_found(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("paimon", "drop-partition", str(tmp_path), "dt=1", "--yes")
    assert done.code == 6
    assert "no Paimon table" in done.error["message"]


def test_a_drop_that_matches_nothing_commits_nothing(lakesweep: Lakesweep, days: JavaTable) -> None:
    before = days.stored()
    done = _drop(lakesweep, days, "dt=1999-01-01", "--yes")
    assert (done.code, done.document["snapshot"], days.stored()) == (0, None, before)


def test_a_table_without_snapshots_has_nothing_to_drop(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = java_tables.table("never_committed").copy_to(tmp_path)
    before = table.stored()
    done = _expire(lakesweep, table, "--expiration-time", "1d", "--yes")
    assert (done.code, done.document["snapshots"], table.stored()) == (0, [], before)


def test_a_dry_run_of_expiry_tells_each_partition_s_time_and_fate(
    lakesweep: Lakesweep, days: JavaTable
) -> None:
    before = days.stored()
    words = ("--expiration-time", "30d", "--max", "3", "--zone", "Asia/Tokyo", "--dry-run")
    found = _expire(lakesweep, days, *words)
    fates = {
        each["partition"].removeprefix("dt="): (each["time"], each["expires"])
        for each in found.document["partitions"]
    }
    assert fates == {
        "2021-03-01": ("2021-02-28T15:00:00Z", True),
        "2021-03-02": ("2021-03-01T15:00:00Z", True),
        "2021-03-03": ("2021-03-02T15:00:00Z", True),
        "2021-03-04": ("2021-03-03T15:00:00Z", False),
        "2999-01-01": ("2998-12-31T15:00:00Z", False),
        "__DEFAULT_PARTITION__": (None, False),
        "not-a-date": (None, False),
    }
    assert "dt=not-a-date never expires: 'not-a-date' does not match" in found.err
    assert found.document["expired"]["partitions"] == 3
    assert days.stored() == before


def test_expired_partitions_are_dropped(lakesweep: Lakesweep, days: JavaTable) -> None:
    words = ("--expiration-time", "30d", "--formatter", "yyyy-MM-dd", "--pattern", "$dt", "--yes")
    done = _expire(lakesweep, days, *words).document
    assert done["snapshots"] == [9]
    assert done["expired"] == {"partitions": 4, "files": 5, "rows": 17, "size_bytes": 4932}
    assert _partitions(str(days.folder)) == {
        "dt=2999-01-01", "dt=__DEFAULT_PARTITION__", "dt=not-a-date",
    }  # fmt: skip


def test_partitions_expire_by_their_newest_file(lakesweep: Lakesweep, days: JavaTable) -> None:
    young = _expire(lakesweep, days, "--expiration-time", "3650d", "--strategy", "update-time")
    assert young.document["expired"]["partitions"] == 0
    assert len(young.document["partitions"]) == 7


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "has no expiration time for partitions"),
        (("--expiration-time", "soon"), "not a duration"),
        (("--expiration-time", "1d", "--zone", "Mars/Olympus"), "no time zone 'Mars/Olympus'"),
        (("--expiration-time", "1d", "--formatter", "bbb"), "'bbb'"),
        (("--expiration-time", "1d", "--pattern", "$day"), "names no key"),
        (("--expiration-time", "1d", "--strategy", "luck"), "'luck'"),
        (("--expiration-time", "1d", "--max", "0"), "--max"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    lakesweep: Lakesweep, days: JavaTable, words: tuple[str, ...], text: str
) -> None:
    done = _expire(lakesweep, days, *words, "--dry-run")
    assert (done.code, text in done.error["message"]) == (2, True)


def test_a_locked_table_is_refused_unless_told_otherwise(
    lakesweep: Lakesweep, days: JavaTable
) -> None:
    schema = days.folder / "schema" / "schema-0"
    text = schema.read_text()
    schema.write_text(text.replace('"options" : {', '"options" : {"lock.enabled": "true",'))
    refused = _drop(lakesweep, days, "dt=2021-03-01", "--yes")
    assert (refused.code, "catalog-lock" in refused.error["hint"]) == (3, True)
    forced = _drop(lakesweep, days, "dt=2021-03-01", "--yes", "--override", "catalog-lock")
    assert forced.document["snapshot"] == 9


def test_partitions_of_a_table_in_s3_are_dropped_by_a_conditional_write(
    lakesweep: Lakesweep,
    java_tables: JavaWarehouses,
    moto: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    moto.make_bucket(BUCKET)
    java = java_tables.table("pk_dynamic")
    for name in java.stored():
        data = (java.folder / name).read_bytes()
        moto.boto3().put_object(Bucket=BUCKET, Key=f"t/{name}", Body=data)
    address = f"s3://{BUCKET}/t"
    done = lakesweep("paimon", "drop-partition", address, "dt=2021-03-01", "--yes")
    assert done.document["snapshot"] == 6
    stores = Stores({f"s3://{BUCKET}": moto.options()})
    assert _partitions(address, stores) == {"dt=2021-03-02"}
    keys = moto.boto3().list_objects_v2(Bucket=BUCKET, Prefix="t/snapshot/")["Contents"]
    added = {each["Key"].removeprefix("t/") for each in keys} - java.stored()
    assert added == {"snapshot/snapshot-6"}


def test_an_expiry_is_refused_if_our_clock_is_ahead(days: JavaTable, tmp_path: Path) -> None:
    app = App(Config(), folder=tmp_path, clock=ManualClock(datetime(2999, 2, 1, tzinfo=UTC)))
    request = ExpirePartitionsRequest(
        str(days.folder), keep=timedelta(days=7), formatter="yyyy-MM-dd", pattern="$dt"
    )
    before = days.stored()
    with pytest.raises(RefusedError, match=r"the clock here is .* ahead") as refused:
        expire_partitions(app, request, lambda _: None)
    assert refused.value.guard == "clock"
    assert days.stored() == before


def test_a_file_of_a_dropped_partition_stays_while_an_iceberg_table_needs_it(
    capfd: pytest.CaptureFixture[str], days: JavaTable, tmp_path: Path
) -> None:
    paimon = PaimonTable.open(Stores(), str(days.folder))
    live = [days.folder / path for path in live_files(paimon, newest(paimon))]
    first = next(path for path in live if "dt=2021-03-01" in str(path))
    other = next(path for path in live if "dt=2021-03-02" in str(path))
    rows = pa.table({"id": [1]})
    pq.write_table(rows, first)  # files of Paimon have ids of fields, which add_files refuses
    properties = {"uri": f"sqlite:///{tmp_path}/prod.db", "warehouse": f"file://{tmp_path}/ice"}
    catalog = SqlCatalog("prod", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.guest", rows.schema).add_files([f"file://{first}"])
    config = tmp_path / "lakesweep.toml"
    config.write_text(
        f'[lakes.ice]\nlocations = ["{tmp_path}/ice"]\n[[lakes.ice.roots]]\n'
        'type = "iceberg-catalog"\nname = "prod"\n'
        f'properties = {{ type = "sql", uri = "{properties["uri"]}" }}\n'
    )
    lakesweep = Lakesweep(capfd, config)
    assert _drop(lakesweep, days, "dt=2021-03-01", "dt=2021-03-02", "--yes").code == 0
    words = ("--retain-min", "1", "--retain-max", "1", "--limit", "100", "--settle", "0s", "--yes")
    done = lakesweep("paimon", "expire-snapshots", str(days.folder), *words)
    assert done.code == 0, done.err
    assert "kept (referenced)" in done.err
    assert first.exists()
    assert not other.exists()
    assert catalog.load_table("shop.guest").scan().to_arrow().num_rows == 1
