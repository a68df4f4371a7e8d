"""Plans: what they are made of, and what their documents say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.config import IcebergScanRoot, LakeSection
from lakesweep.storage.listing.inventory import open_inventory
from lakesweep.sweep.judge.live_set import MatchMode
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk, deletes, reasons, rows_of

ORPHAN = f"{BUCKET}/one/data/00000-0-1f.parquet"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def desk(bucket: Bucket) -> Desk:
    """A lake of one table with one file, and an orphan beside it."""
    table = Table(bucket, "one")
    bucket.write(table.path("data/a.parquet"), b"1234567")
    bucket.write(ORPHAN, b"")
    table.snapshot(table.manifest("m0.avro", table.data("a.parquet")))
    names = Names({"one": table.commit()})
    return Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [names])


def inventory(bucket: Bucket, desk: Desk, *paths: str, days_old: float = 1) -> str:
    """A CSV of files, all of them written a month before the present."""
    written = desk.clock.now() - timedelta(days=29)
    rows = [f"{path},7,{written:%Y-%m-%dT%H:%M:%S.000Z}" for path in paths]
    return bucket.write(
        f"{BUCKET}/inventories/{days_old}.csv", "\n".join(["path,size,modified", *rows]).encode()
    )


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_what_no_root_references_is_deleted(desk: Desk, mode: MatchMode) -> None:
    assert deletes(desk.plan(mode=mode)) == {ORPHAN}


def test_a_second_plan_reads_no_manifest_again(desk: Desk, bucket: Bucket) -> None:
    first = desk.plan()
    bucket.reads()
    again = desk.plan()
    assert not [path for path in bucket.reads() if path.endswith("m0.avro")]
    assert again.document.spec["manifests_reused"] == again.document.spec["manifests"] == 1
    assert reasons(again) == reasons(first)


def test_each_phase_is_timed(desk: Desk) -> None:
    assert set(desk.plan().document.seconds) == {"list", "mark", "judge"}


def test_an_inventory_stands_in_for_the_listing(desk: Desk, bucket: Bucket) -> None:
    elsewhere = f"{BUCKET}-2/one/data/x.parquet"
    path = inventory(bucket, desk, ORPHAN, elsewhere, f"{BUCKET}/one/data/a.parquet")
    taken = desk.clock.now() - timedelta(days=1)
    plan = desk.plan(inventory=open_inventory(bucket.stores, path, taken_at=taken))
    assert reasons(plan) == {
        ORPHAN: "unreferenced",
        f"{BUCKET}/one/data/a.parquet": "referenced",
    }
    assert plan.document.spec["inventory"] == path


def test_the_age_of_an_inventory_is_added_to_the_grace(desk: Desk, bucket: Bucket) -> None:
    path = inventory(bucket, desk, ORPHAN)
    taken = desk.clock.now() - timedelta(days=23)
    plan = desk.plan(inventory=open_inventory(bucket.stores, path, taken_at=taken))
    assert plan.document.cut_off == taken - timedelta(days=7)
    assert reasons(plan) == {ORPHAN: "too-new"}


def scanned(bucket: Bucket, *, keep: bool) -> Desk:
    lost = Table(bucket, "lost")
    lost.snapshot(lost.manifest("m0.avro", lost.data("a.parquet")))
    lost.commit()
    root = IcebergScanRoot(type="iceberg-scan", path=BUCKET, keep=keep)
    return Desk(bucket.stores, LakeSection(locations=(BUCKET,), roots=(root,)))


@pytest.mark.parametrize("keep", [True, False])
def test_tables_that_no_catalog_lists_are_told(bucket: Bucket, keep: bool) -> None:
    plan = scanned(bucket, keep=keep).plan()
    [found] = plan.document.unlisted
    folder = f"{BUCKET}/lost"
    # One that a scan does not keep is still a table that no root lists.
    assert found.pointer == (f"{folder}/metadata/00001-x.metadata.json" if keep else folder)
    assert found.kept
    assert not deletes(plan)


def test_a_short_grace_is_planned_and_guarded(desk: Desk) -> None:
    plan = desk.plan(grace=timedelta(hours=1), overridden=("grace",))
    assert "grace" in [guard.name for guard in plan.document.guards]
    assert plan.document.overridden == ("grace",)


def test_a_plan_takes_the_name_that_it_is_given(desk: Desk) -> None:
    assert desk.plan(name="plan-7").document.plan == "plan-7"


def test_partitions_by_fields_that_look_hidden_are_swept(bucket: Bucket) -> None:
    table = Table(bucket, "one", {"partition-specs": [{"spec-id": 0, "fields": [{"name": "_x"}]}]})
    orphan, hidden = (table.path(f"data/{name}/a.parquet") for name in ("_x=1", "_y=1"))
    for path in (orphan, hidden):
        bucket.write(path, b"")
    names = Names({"one": table.commit()})
    plan = Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [names]).plan()
    assert (reasons(plan)[orphan], reasons(plan)[hidden]) == ("unreferenced", "hidden")


def test_guesses_know_the_snapshots_that_tables_name(desk: Desk, bucket: Bucket) -> None:
    known, gone = (bucket.write(f"{BUCKET}/one/metadata/{n}-x.stats", b"") for n in (1, 2))
    rules = {row["path"]: row["rule"] for row in rows_of(desk.plan())}
    assert (rules[known], rules[gone]) == ("old-metadata", "expired-snapshot")
