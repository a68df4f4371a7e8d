"""A table in the lake that no root lists is kept: most likely its catalog was forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import UNSET

from lakesweep.config import AcceptSection, LakeSection
from lakesweep.errors import NotFoundError
from lakesweep.sweep.plan.stored_plan import StoredPlan
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk, deletes, reasons

PAIMON = ("snapshot/snapshot-1", "schema/schema-0", "bucket-0/data-0.parquet")


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def create(bucket: Bucket, name: str, **document: Any) -> Table:
    """A table with a file that it references, and one that it does not."""
    table = Table(bucket, name, document)
    for file in ("a.parquet", "orphan.parquet"):
        bucket.write(table.path(f"data/{file}"), b"1234567")
    table.snapshot(table.manifest("m0.avro", table.data("a.parquet")))
    return table


def catalog(*tables: Table, name: str = "catalog lake") -> Names:
    return Names({table.name: table.commit() for table in tables}, name=name)


def section(**more: Any) -> LakeSection:
    return LakeSection(locations=(BUCKET,), **more)


def accept(desk: Desk, table: str, days: int = 1) -> LakeSection:
    until = (desk.clock.now() + timedelta(days=days)).date()
    decision = {"guard": "unlisted-table", "table": table, "until": until, "reason": "dropped"}
    return section(accept=(AcceptSection.model_validate(decision),))


def below(plan: StoredPlan, folder: str) -> dict[str, str]:
    return {path: why for path, why in reasons(plan).items() if path.startswith(f"{folder}/")}


def guarded(plan: StoredPlan) -> tuple[str, ...]:
    found = [guard for guard in plan.document.guards if guard.name == "unlisted-table"]
    return found[0].subjects if found else ()


def test_the_tables_of_a_forgotten_catalog_are_kept(bucket: Bucket) -> None:
    listed = [create(bucket, name) for name in ("one", "two")]
    for name in ("three", "four"):
        create(bucket, name).commit()
    plan = Desk(bucket.stores, section(), [catalog(*listed)]).plan()
    forgotten = [f"{BUCKET}/four", f"{BUCKET}/three"]
    assert deletes(plan) == {table.path("data/orphan.parquet") for table in listed}
    for folder in forgotten:
        assert set(below(plan, folder).values()) == {"unlisted-table"}
    assert list(guarded(plan)) == forgotten
    assert [(each.pointer, each.kept, each.files) for each in plan.document.unlisted] == [
        (folder, True, 5) for folder in forgotten
    ]


def test_the_guard_says_what_to_do(bucket: Bucket) -> None:
    create(bucket, "lost").commit()
    plan = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))]).plan()
    [guard] = [each for each in plan.document.guards if each.name == "unlisted-table"]
    assert f"{BUCKET}/lost (5 files)" in guard.message
    assert "add the catalog" in guard.message
    assert f"--override unlisted-table={BUCKET}/lost" in guard.message


def test_a_paimon_table_that_no_root_lists_is_kept(bucket: Bucket) -> None:
    paths = [bucket.write(f"{BUCKET}/p.db/t/{name}", b"") for name in PAIMON]
    plan = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))]).plan()
    assert {reasons(plan)[path] for path in paths} == {"unlisted-table"}
    assert guarded(plan) == (f"{BUCKET}/p.db/t",)


def test_an_apply_counts_what_it_keeps_for_tables_that_no_root_lists(bucket: Bucket) -> None:
    create(bucket, "lost").commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    applied = desk.apply(desk.plan())
    assert (applied.report.deleted, applied.report.withheld) == (1, {"unlisted-table": 5})


def test_a_catalog_that_drops_a_table_lets_it_go(bucket: Bucket) -> None:
    one, two = create(bucket, "one"), create(bucket, "two")
    names = catalog(one, two)
    desk = Desk(bucket.stores, section(), [names])
    desk.plan()
    del names.pointers["two"]
    plan = desk.plan()
    assert set(below(plan, two.location).values()) == {"unreferenced"}
    assert guarded(plan) == ()
    assert "roots-gone" in [guard.name for guard in plan.document.guards]


def test_a_catalog_that_is_not_asked_any_more_drops_nothing(bucket: Bucket) -> None:
    one, two = create(bucket, "one"), create(bucket, "two")
    desk = Desk(bucket.stores, section(), [catalog(one), catalog(two, name="catalog other")])
    desk.plan()
    desk.roots = desk.roots[:1] if desk.roots else None
    plan = desk.plan()
    assert set(below(plan, two.location).values()) == {"unlisted-table"}


def test_a_folder_that_another_table_took_over_is_kept(bucket: Bucket) -> None:
    one, two = create(bucket, "one"), create(bucket, "two")
    names = catalog(one, two)
    desk = Desk(bucket.stores, section(), [names])
    desk.plan()
    del names.pointers["two"]
    desk.clock.now()
    two.document["table-uuid"] = "another"
    written = bucket.write(two.path("metadata/00000-y.metadata.json"), b"{}")
    bucket.write(written, b'{"format-version": 2, "table-uuid": "another"}')
    # The clock of the desk is a month ahead: what was written now is older than the last plan.
    memory = desk.runs.known_folders(desk.runs.lake("prod"))["two"]
    early = replace_seen(desk, memory)
    plan = early.plan()
    assert set(below(plan, two.location).values()) == {"unlisted-table"}


def replace_seen(desk: Desk, memory: Any) -> Desk:
    """Let the last plan be as old as the first file."""
    import msgspec

    seen = memory.seen_at - timedelta(days=60) // timedelta(microseconds=1)
    old = msgspec.structs.replace(memory, seen_at=seen)
    desk.runs.learn("prod", lambda record: record, roots={"two": old})
    return desk


def test_a_table_is_let_go_by_a_standing_decision(bucket: Bucket) -> None:
    lost = create(bucket, "lost")
    lost.commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    plan = replace(desk, section=accept(desk, f"{BUCKET}/lost/")).plan()
    assert set(below(plan, lost.location).values()) == {"unreferenced"}


@pytest.mark.parametrize("table", ["lost", "p.db/t"])
def test_a_table_is_let_go_by_an_override_that_names_it(bucket: Bucket, table: str) -> None:
    create(bucket, "lost").commit()
    for name in PAIMON:
        bucket.write(f"{BUCKET}/p.db/t/{name}", b"")
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    plan = desk.plan(overridden=(f"unlisted-table={BUCKET}/{table}",))
    other = {"lost": "p.db/t", "p.db/t": "lost"}[table]
    [guard] = [each for each in plan.document.guards if each.name == "unlisted-table"]
    assert guard.subjects == (f"{BUCKET}/{other}",)
    assert set(below(plan, f"{BUCKET}/{table}").values()) == {"unreferenced"}
    assert set(below(plan, f"{BUCKET}/{other}").values()) == {"unlisted-table"}


def test_the_guard_does_not_stand_for_a_table_that_was_named(bucket: Bucket) -> None:
    lost = create(bucket, "lost")
    lost.commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    plan = desk.plan(overridden=(f"unlisted-table={lost.location}",))
    assert "unlisted-table" not in {guard.name for guard in plan.document.guards}
    assert [each.kept for each in plan.document.unlisted] == [False]
    report = desk.apply(plan).report
    assert (report.deleted, report.withheld) == (6, UNSET)


def test_an_override_without_a_name_lets_no_table_go(bucket: Bucket) -> None:
    lost = create(bucket, "lost")
    lost.commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    plan = desk.plan(overridden=("unlisted-table",))
    assert set(below(plan, lost.location).values()) == {"unlisted-table"}


@pytest.mark.parametrize("name", ["nothing", "one", ""])
def test_an_override_that_names_no_such_table_is_an_error(bucket: Bucket, name: str) -> None:
    create(bucket, "lost").commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    with pytest.raises(NotFoundError, match="lost"):
        desk.plan(overridden=(f"unlisted-table={BUCKET}/{name}",))


def test_a_decision_that_was_withdrawn_does_not_count_at_apply(bucket: Bucket) -> None:
    lost = create(bucket, "lost")
    lost.commit()
    desk = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))])
    desk.section = accept(desk, lost.location)
    plan = desk.plan()
    assert lost.path("data/a.parquet") in deletes(plan)
    desk.section = section()
    applied = desk.apply(plan)
    assert (applied.report.deleted, applied.report.withheld) == (1, {"unlisted-table": 5})


def test_a_listed_table_in_the_folder_of_another_is_swept(bucket: Bucket) -> None:
    outer, inner = create(bucket, "outer"), create(bucket, "outer/inner")
    outer.commit()
    desk = Desk(bucket.stores, section(), [catalog(inner)])
    plan = desk.plan()
    assert deletes(plan) == {inner.path("data/orphan.parquet")}
    assert reasons(plan)[outer.path("data/a.parquet")] == "unlisted-table"
    assert desk.apply(plan).report.deleted == 1


def test_what_such_a_table_declares_elsewhere_is_kept_too(bucket: Bucket) -> None:
    data = bucket.write(f"{BUCKET}/elsewhere/a.parquet", b"")
    create(bucket, "lost", properties={"write.data.path": f"{BUCKET}/elsewhere"}).commit()
    plan = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))]).plan()
    assert reasons(plan)[data] == "unlisted-table"


def test_metadata_that_cannot_be_read_keeps_its_folder(bucket: Bucket) -> None:
    bucket.write(f"{BUCKET}/lost/metadata/v1.metadata.json", b"no json")
    data = bucket.write(f"{BUCKET}/lost/data/a.parquet", b"")
    plan = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))]).plan()
    assert reasons(plan)[data] == "unlisted-table"


def test_old_metadata_of_a_table_that_moved_is_no_other_table(bucket: Bucket) -> None:
    one = create(bucket, "one")
    one.commit()
    moved = bucket.write(f"{BUCKET}/meta/00002-x.metadata.json", bucket.read(one.commit()))
    names = Names({"one": moved}, name="catalog lake")
    plan = Desk(bucket.stores, section(), [names]).plan()
    assert guarded(plan) == ()
    assert one.path("data/orphan.parquet") in deletes(plan)


def test_what_is_in_quarantine_is_no_table(bucket: Bucket) -> None:
    bucket.write(f"{BUCKET}/_lakesweep/quarantine/r/t/metadata/v1.metadata.json", b"{}")
    plan = Desk(bucket.stores, section(), [catalog(create(bucket, "one"))]).plan()
    assert guarded(plan) == ()


def test_files_of_a_dropped_table_that_were_too_new_are_not_taken_for_a_lost_one(
    bucket: Bucket,
) -> None:
    one, two = create(bucket, "one"), create(bucket, "two")
    names = catalog(one, two)
    desk = Desk(bucket.stores, section(), [names])
    desk.plan()
    del names.pointers["two"]
    plan = desk.plan(overridden=("roots-gone",))
    desk.apply(plan)
    bucket.write(two.path("metadata/00001-x.metadata.json"), b'{"table-uuid": "uuid-of-two"}')
    again = desk.plan()
    assert set(below(again, two.location).values()) == {"unreferenced"}
    assert {guard.name for guard in again.document.guards}.isdisjoint(
        {"unlisted-table", "roots-gone"}
    )
