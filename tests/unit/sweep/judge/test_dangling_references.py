"""References that lead nowhere: what they may mean is kept, and a guard tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.config import LakeSection
from lakesweep.storage.listing.inventory import open_inventory
from lakesweep.sweep.inspect.verdict_explanation import explain
from lakesweep.sweep.judge.dangling_references import folder_spellings, loose_keys
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.plan.stored_plan import StoredPlan
from tests.iceberg_tables import BUCKET, Bucket, File, Names, Table
from tests.moments import NOON
from tests.planned import Desk, deletes, reasons


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3a://lake/hot//t/a", "s3://lake/hot/t/a"),
        ("s3://lake-s3alias/t/a", "s3://lake/t/a"),
        ("file:///x///a", "/x/a"),
        ("s3://lake/day=a%20b/x", "s3://lake/day=a b/x"),
        ("s3://lake/day=a+b/x", "s3://lake/day=a b/x"),
        ("s3://lake/day=a%2Bb/x", "s3://lake/day=a+b/x"),
        ("s3://lake/day=a%252520b/x", "s3://lake/day=a b/x"),
        ("s3://lake/t%2fa", "s3://lake/t/a"),
        ("s3://lake/caf\u00e9", "s3://lake/cafe\u0301"),
        ("s3://lake/caf%C3%A9", "s3://lake/cafe\u0301"),
        ("abfss://c@a.dfs.core.windows.net/t/a", "abfss://c@b.dfs.core.windows.net/t/a"),
        ("s3://lake/t/./a", "s3://lake/t/a"),
        ("s3://lake/./t/x/../a", "s3://lake/t/a"),
        ("s3://lake/../../t/a", "s3://lake/t/a"),
        ("s3://lake/t/x%2F%2e%2E/a", "s3://lake/t/a"),
        ("s3://lake/t/%252e/a", "s3://lake/t/a"),
        ("s3://lake/x//../t/a", "s3://lake/t/a"),
        ("s3://lake/t//../a", "s3://lake/t/a"),
        ("s3://lake/t/b%2Fc/../a", "s3://lake/t/a"),
        ("s3://lake/t/b%2Fc/../a", "s3://lake/t/b/a"),
    ],
)
def test_names_that_may_mean_one_file_have_the_same_hash(one: str, other: str) -> None:
    first, second = (set(zip(*_hashes(path), strict=True)) for path in (one, other))
    assert first & second


def _hashes(path: str) -> tuple[list[int], list[int]]:
    low, high = loose_keys(pa.array([path])).hashes
    return low.tolist(), high.tolist()


def test_other_keys_have_other_hashes() -> None:
    paths = ["t/a", "t/A", "x/t/a", "t/.a", "t/..a", "t/a.", "t/.../a"]
    low, _ = loose_keys(pa.array([f"s3://lake/{path}" for path in paths])).hashes
    assert len(set(low.tolist())) == len(paths)


@pytest.mark.parametrize(
    ("folder", "others"),
    [
        ("s3://lake/t/", []),
        ("s3://lake/x/../t/", ["s3://lake/t/"]),
        ("/x//t/./", ["/x/t/"]),
        ("s3://lake/", []),
        ("s3://lake/..", ["s3://lake/"]),
        ("s3://lake/a%20b/", ["s3://lake/a b/"]),
    ],
)
def test_a_folder_is_protected_in_all_its_spellings(folder: str, others: list[str]) -> None:
    assert list(folder_spellings(folder)) == [folder, *others]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def table(bucket: Bucket) -> Table:
    """A table with a file, and an orphan beside it."""
    table = Table(bucket, "one")
    for name in ("a", "orphan"):
        bucket.write(table.path(f"data/{name}.parquet"), b"")
    return table


def desk(table: Table, *named: str, **lake: Any) -> Desk:
    """The lake of a table that names some files."""
    table.snapshot(table.manifest("m0.avro", *map(File, named)))
    names = Names({"shop.one": table.commit()})
    return Desk(table.bucket.stores, LakeSection(locations=(BUCKET,)), [names], **lake)


def missing(plan: StoredPlan) -> list[str]:
    return [guard.message for guard in plan.document.guards if guard.name == "missing"]


STORED, ORPHAN = f"{BUCKET}/one/data/a.parquet", f"{BUCKET}/one/data/orphan.parquet"


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
@pytest.mark.parametrize(
    "named",
    [
        f"{BUCKET}/one//data/a.parquet",
        f"{BUCKET}/one/./data/a.parquet",
        f"{BUCKET}/one/x/../data/a.parquet",
        "s3://lake-alias/one/data/a.parquet",
    ],
)
def test_what_a_reference_that_leads_nowhere_may_mean_is_kept(
    table: Table, named: str, mode: MatchMode
) -> None:
    plan = desk(table, named).plan(mode=mode)
    assert reasons(plan)[STORED] == "in-doubt"
    assert deletes(plan) == {ORPHAN}


def test_a_guard_names_the_tables_that_lack_files(table: Table) -> None:
    plan = desk(table, STORED, f"{BUCKET}/one//data/x.parquet").plan()
    assert missing(plan) == ["1 file referenced and not stored: by shop.one"]


def test_no_guard_speaks_where_all_is_stored(table: Table) -> None:
    assert missing(desk(table, STORED).plan()) == []


def test_files_elsewhere_are_not_missed(table: Table) -> None:
    assert missing(desk(table, STORED, "s3://elsewhere/x.parquet").plan()) == []


def test_what_was_written_since_the_listing_is_not_missed(table: Table, bucket: Bucket) -> None:
    lake = desk(table, STORED, f"{BUCKET}/one/data/new.parquet")
    rows = [f"{path},7,2020-01-01T00:00:00.000Z" for path in (STORED, ORPHAN)]
    text = "\n".join(["path,size,modified", *rows])
    file = bucket.write(f"{BUCKET}/inventory.csv", text.encode())
    bucket.write(f"{BUCKET}/one/data/new.parquet", b"")
    taken = open_inventory(bucket.stores, file, taken_at=lake.clock.now())
    assert missing(lake.plan(inventory=taken)) == []


MANY = 1_200
ENCODED = f"{BUCKET}/one/data/day=a%20b/{{}}.parquet"
PLAIN = f"{BUCKET}/one/data/day=a b/{{}}.parquet"


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_many_new_files_hide_no_dangling_reference(
    table: Table, bucket: Bucket, mode: MatchMode
) -> None:
    """A job writes more files than a sample would hold, while the plan is made."""
    live = [bucket.write(PLAIN.format(number), b"") for number in range(20)]
    new = [f"{BUCKET}/one/data/new-{number}.parquet" for number in range(MANY)]
    lake = desk(table, *new, *(ENCODED.format(number) for number in range(20)))
    rows = [f"{path},7,2020-01-01T00:00:00.000Z" for path in (*live, ORPHAN)]
    text = "\n".join(["path,size,modified", *rows])
    file = bucket.write(f"{BUCKET}/inventory.csv", text.encode())
    for path in new:
        bucket.write(path, b"")
    plan = lake.plan(inventory=open_inventory(bucket.stores, file, taken_at=NOON), mode=mode)
    assert missing(plan) == ["20 files referenced and not stored: by shop.one"]
    assert deletes(plan) == {ORPHAN}
    assert explain(plan, live[0]).evidence == [
        f"shop.one references {ENCODED.format(0)}, which is not stored, and may mean this file"
    ]


def test_what_a_table_names_otherwise_since_the_plan_is_kept(table: Table, bucket: Bucket) -> None:
    taken_up = bucket.write(PLAIN.format(0), b"")
    lake = desk(table, STORED)
    plan = lake.plan()
    assert deletes(plan) == {ORPHAN, taken_up}
    table.snapshot(table.manifest("m1.avro", File(ENCODED.format(0))))
    lake.roots = [Names({"shop.one": table.commit()})]
    lake.apply(plan)
    assert bucket.read(taken_up) == b""


def test_each_table_that_lacks_a_file_is_named(table: Table, bucket: Bucket) -> None:
    lost = f"{BUCKET}/one/data/lost.parquet"
    two = Table(bucket, "two")
    for each in (table, two):
        each.snapshot(each.manifest("m0.avro", File(lost)))
    names = Names({"shop.one": table.commit(), "shop.two": two.commit()})
    lake = Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [names])
    assert missing(lake.plan()) == ["1 file referenced and not stored: by shop.one, shop.two"]


def test_metadata_that_the_log_still_names_is_not_missed(table: Table) -> None:
    table.document["metadata-log"] = [{"metadata-file": table.path("metadata/0.metadata.json")}]
    assert missing(desk(table, STORED).plan()) == []


def test_files_in_the_locations_of_another_lake_put_nothing_in_doubt(table: Table) -> None:
    theirs = {"copy": ("s3://replica/",)}
    lake = desk(table, "s3://replica/one/data/a.parquet", neighbours=theirs)
    assert deletes(lake.plan()) == {STORED, ORPHAN}


def test_what_a_referenced_link_leads_to_is_kept(tmp_path: Path) -> None:
    """As tools leave it behind that move cold files elsewhere."""
    lake = tmp_path.resolve() / "lake"
    cold = lake / "cold" / "a.parquet"
    cold.parent.mkdir(parents=True)
    cold.write_bytes(b"1234567")
    (lake / "a.parquet").symlink_to(cold)
    bucket = Bucket()
    table = Table(bucket, "one")
    table.snapshot(table.manifest("m0.avro", File(f"{lake}/a.parquet")))
    section = LakeSection(locations=(str(lake),))
    plan = Desk(bucket.stores, section, [Names({"one": table.commit()})]).plan()
    assert reasons(plan)[str(cold)] == "in-doubt"
