"""What is referenced and not stored, told without false alarms."""

from __future__ import annotations

import pytest

from lakesweep.config import LakeSection
from lakesweep.errors import StorageError, UnavailableError
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.object_store import ObjectInfo
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.sweep.inspect.check import CheckResult, MissingFiles, RefusedLookup
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk

GONE = f"{BUCKET}/one/data/gone.parquet"


class Lake:
    """Two tables whose manifests both name a file that is not there."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.tables = {name: Table(self.bucket, name) for name in ("one", "two")}
        self.names = Names()
        for name, table in self.tables.items():
            self.bucket.write(table.path("data/a.parquet"), b"1234567")
            gone = self.tables["one"].data("gone.parquet")
            table.snapshot(table.manifest("m0.avro", table.data("a.parquet"), gone))
            table.snapshot(table.manifest("m1.avro", gone))
            self.names.pointers[name] = table.commit()
        self.desk = Desk(self.bucket.stores, LakeSection(locations=(BUCKET,)), [self.names])

    def check(self) -> CheckResult:
        return self.desk.check(self.desk.survey())

    def missing(self, checked: CheckResult) -> set[tuple[str, str]]:
        return {(row["path"], row["table"]) for row in self.desk.rows(checked.missing)}


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_a_missing_file_counts_once_and_is_told_for_each_table(lake: Lake) -> None:
    checked = lake.check()
    assert lake.missing(checked) == {(GONE, "one"), (GONE, "two")}
    assert checked.missing.rows == 2
    assert checked.files == 1
    assert checked.gaps == (MissingFiles("one", "data", 1, 7), MissingFiles("two", "data", 1, 7))


def test_nothing_is_missing_where_all_is_stored(lake: Lake) -> None:
    lake.bucket.write(GONE, b"")
    checked = lake.check()
    assert (checked.files, checked.gaps, checked.missing.rows) == (0, (), 0)


def test_a_file_that_was_made_since_the_listing_is_there(lake: Lake) -> None:
    survey = lake.desk.survey()
    lake.bucket.write(GONE, b"")
    assert lake.desk.check(survey).files == 0


def test_a_table_that_has_moved_is_asked_again(lake: Lake) -> None:
    survey = lake.desk.survey()
    for name, table in lake.tables.items():
        table.document["snapshots"] = []
        lake.names.pointers[name] = table.commit()
    assert lake.desk.check(survey).files == 0


def test_a_table_that_was_dropped_needs_nothing(lake: Lake) -> None:
    survey = lake.desk.survey()
    del lake.names.pointers["two"]
    assert lake.missing(lake.desk.check(survey)) == {(GONE, "one")}


def test_files_outside_of_the_locations_are_only_counted(lake: Lake) -> None:
    section = LakeSection(locations=(f"{BUCKET}/two",))
    desk = Desk(lake.bucket.stores, section, [lake.names])
    checked = desk.check(desk.survey())
    assert checked.files == 0
    assert checked.outside > 1


def test_a_manifest_that_is_gone_is_missing_and_its_table_incomplete(lake: Lake) -> None:
    path = lake.tables["one"].path("metadata/m1.avro")
    lake.bucket.delete(path)
    checked = lake.check()
    assert (path, "one") in lake.missing(checked)
    assert [root.name for root in checked.marks.roots if root.reasons] == ["one"]


def test_two_names_of_one_table_both_need_its_files(lake: Lake) -> None:
    lake.names.pointers["alias"] = lake.names.pointers["one"]
    assert {table for _, table in lake.missing(lake.check())} == {"one", "two", "alias"}


def test_a_store_that_does_not_say_ends_the_check(lake: Lake) -> None:
    survey = lake.desk.survey()
    silent = StorageFault(fail(UnavailableError), frozenset({"head"}))
    stores = Stores(replace={BUCKET: Faulty(lake.bucket.store, [silent])})
    desk = Desk(stores, lake.desk.section, [lake.names])
    with pytest.raises(UnavailableError):
        desk.check(survey)


def test_a_key_that_a_store_refuses_is_told_and_the_rest_is_checked(lake: Lake) -> None:
    odd = f"{BUCKET}/one/data/odd.parquet"
    table = lake.tables["one"]
    table.snapshot(table.manifest("m2.avro", table.data("odd.parquet")))
    lake.names.pointers["one"] = table.commit()
    survey = lake.desk.survey()

    class Picky(StoreWrapper):
        def head(self, key: str) -> ObjectInfo:
            if key.endswith("odd.parquet"):
                raise StorageError(self.base + key, "InvalidArgument: the key is not valid")
            return self.store.head(key)

    stores = Stores(replace={BUCKET: Picky(lake.bucket.store)})
    checked = Desk(stores, lake.desk.section, [lake.names]).check(survey)
    assert (checked.files, checked.refused) == (1, 1)
    reason = "InvalidArgument: the key is not valid"
    assert checked.refusals == (RefusedLookup(odd, reason),)


def test_what_a_check_wrote_can_be_removed(lake: Lake) -> None:
    lake.check()
    remove_folder(lake.desk.stores, lake.desk.plans)
    bucket = lake.desk.plans.removesuffix("/prod")
    assert not lake.desk.stores.open(f"{bucket}/").list("").entries.num_rows
