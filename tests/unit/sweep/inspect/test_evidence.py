"""Which roots keep a file, and through which files."""

from __future__ import annotations

import pytest

from lakesweep.sweep.inspect.evidence import find_references
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marks import Marks
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.marked import spec_for


class Shared:
    """Two tables that share a manifest, one of them in three snapshots."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.one, self.two = Table(self.bucket, "one"), Table(self.bucket, "two")
        shared = self.one.manifest("m0.avro", self.one.data("a"))
        for _ in range(3):
            self.one.snapshot(shared)
        self.two.snapshot(shared, self.two.manifest("m1.avro", self.two.data("b")))
        self.names = Names({"one": self.one.commit(), "two": self.two.commit()})
        self.marks: Marks = mark(spec_for(self.bucket.stores), [self.names])

    def through(self, path: str) -> dict[str, tuple[str, ...]]:
        found = find_references(self.bucket.stores, self.marks, path)
        return {each.root.name: each.through for each in found}


@pytest.fixture
def lake() -> Shared:
    return Shared()


def test_a_shared_file_is_kept_by_both_roots_each_by_its_own_way(lake: Shared) -> None:
    found = lake.through(lake.one.path("data/a"))
    assert set(found) == {"one", "two"}
    for name, (metadata, listing, manifest) in found.items():
        assert metadata == lake.names.pointers[name]
        assert listing.startswith(f"{BUCKET}/{name}/metadata/snap-")
        assert manifest == lake.one.path("metadata/m0.avro")


def test_a_file_of_one_table_is_kept_by_that_table(lake: Shared) -> None:
    assert set(lake.through(lake.two.path("data/b"))) == {"two"}


def test_a_manifest_leads_to_itself(lake: Shared) -> None:
    path = lake.one.path("metadata/m0.avro")
    assert {way[-1] for way in lake.through(path).values()} == {path}


def test_the_metadata_of_a_root_is_kept_by_the_root_alone(lake: Shared) -> None:
    path = lake.names.pointers["one"]
    assert lake.through(path) == {"one": (path,)}


def test_another_spelling_of_a_file_is_the_same_file(lake: Shared) -> None:
    path = lake.one.path("data/a").replace("s3://", "s3a://")
    found = find_references(lake.bucket.stores, lake.marks, path)
    assert {each.path for each in found} == {lake.one.path("data/a")}
    assert {each.kind for each in found} == {"data"}


def test_what_nothing_references_has_no_evidence(lake: Shared) -> None:
    assert lake.through(f"{BUCKET}/one/data/orphan") == {}
