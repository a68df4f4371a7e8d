from __future__ import annotations

import json
from typing import Any

import pytest

from lakesweep.errors import DeniedError, LakesweepError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.mark.mark_phase import mark, remark
from lakesweep.sweep.mark.marks import Marks, RootState, load_marks
from lakesweep.sweep.roots.root import RootProblem, RootRow
from tests.iceberg_tables import BUCKET, Bucket, File, Names, Table
from tests.marked import incomplete, live, live_of, paths, root, spec_for, states


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def marked(bucket: Bucket, **pointers: str) -> Marks:
    return mark(spec_for(bucket.stores), [Names(pointers)])


def simple(bucket: Bucket, name: str, *files: str, **document: Any) -> Table:
    """A table of one manifest."""
    table = Table(bucket, name, document)
    table.snapshot(table.manifest("m0.avro", *(table.data(file) for file in files)))
    return table


def test_all_that_a_table_names_is_marked(bucket: Bucket) -> None:
    table = Table(
        bucket,
        "t",
        {
            "metadata-log": [{"metadata-file": f"{BUCKET}/t/metadata/00000-x.metadata.json"}],
            "statistics": [{"statistics-path": f"{BUCKET}/t/metadata/1.stats"}],
            "partition-statistics": [{"statistics-path": f"{BUCKET}/t/metadata/p.parquet"}],
        },
    )
    table.snapshot(
        table.manifest("m0.avro", table.data("a"), table.data("b", status=2)),
        table.manifest(
            "m1.avro",
            table.data("p", content=1),
            table.data("v", content=1, format="puffin"),
            table.data("e", content=2, status=0),
        ),
    )
    pointer = table.commit()
    marks = marked(bucket, t=pointer)
    (snapshot,) = table.document["snapshots"]
    assert live(bucket.stores, marks) == {
        (IcebergKind.DATA, table.path("data/a")),
        (IcebergKind.POSITION_DELETE, table.path("data/p")),
        (IcebergKind.DELETION_VECTOR, table.path("data/v")),
        (IcebergKind.EQUALITY_DELETE, table.path("data/e")),
        (IcebergKind.MANIFEST, table.path("metadata/m0.avro")),
        (IcebergKind.MANIFEST, table.path("metadata/m1.avro")),
        (IcebergKind.MANIFEST_LIST, snapshot["manifest-list"]),
        (IcebergKind.METADATA_LOG, table.path("metadata/00000-x.metadata.json")),
        (IcebergKind.STATISTICS, table.path("metadata/1.stats")),
        (IcebergKind.PARTITION_STATISTICS, table.path("metadata/p.parquet")),
        (IcebergKind.METADATA, pointer),
    }
    assert states(marks) == {"t": RootState.COMPLETE}


def test_marks_are_read_back_as_they_were(bucket: Bucket) -> None:
    marks = marked(bucket, t=simple(bucket, "t", "a").commit())
    assert load_marks(bucket.stores, marks.address) == marks


def test_a_root_tells_what_it_says_of_itself_and_what_it_uses(bucket: Bucket) -> None:
    properties = {"gc.enabled": "FALSE", "write.data.path": f"{BUCKET}/elsewhere"}
    table = Table(bucket, "t", {"properties": properties})
    files = [table.data("a"), File(f"{BUCKET}/elsewhere/b"), File(f"{BUCKET}/added/day=1/c")]
    table.snapshot(table.manifest("m0.avro", *files))
    found = root(marked(bucket, t=table.commit()), "t")
    assert found.facts is not None
    assert not found.facts.gc_enabled
    assert found.facts.uuid == "uuid-of-t"
    assert found.folders == (
        table.location,
        f"{BUCKET}/elsewhere",
        f"{BUCKET}/added/day=1/",
    )
    assert {kind: used.files for kind, used in found.used.items()} == {
        "data": 3,
        "manifest": 1,
        "manifest-list": 1,
        "metadata": 1,
    }
    assert found.used["data"].bytes == 21


def test_manifests_that_two_roots_share_are_read_once_and_count_for_both(bucket: Bucket) -> None:
    one, two = simple(bucket, "one", "a"), Table(bucket, "two")
    two.snapshot(one.path("metadata/m0.avro"), two.manifest("m1.avro", two.data("b")))
    marks = marked(bucket, one=one.commit(), two=two.commit())
    assert bucket.reads().count(one.path("metadata/m0.avro")) == 1
    for name, files in (
        ("one", {one.path("data/a")}),
        ("two", {one.path("data/a"), two.path("data/b")}),
    ):
        found = live_of(bucket.stores, marks, root(marks, name))
        assert {path for kind, path in found if kind == IcebergKind.DATA} == files
        assert root(marks, name).used["data"].files == len(files)


def test_a_shared_manifest_that_is_missing_makes_both_roots_incomplete(bucket: Bucket) -> None:
    one, two, other = simple(bucket, "one", "a"), Table(bucket, "two"), simple(bucket, "o", "x")
    two.snapshot(one.path("metadata/m0.avro"))
    pointers = {"one": one.commit(), "two": two.commit(), "other": other.commit()}
    bucket.delete(one.path("metadata/m0.avro"))
    marks = marked(bucket, **pointers)
    assert incomplete(marks) == {"one", "two"}
    assert root(marks, "two").reasons == (f"{one.path('metadata/m0.avro')}: missing: is not there",)
    assert (IcebergKind.MANIFEST, one.path("metadata/m0.avro")) in live(bucket.stores, marks)


def test_manifests_that_an_old_table_embeds_are_followed(bucket: Bucket) -> None:
    table = Table(bucket, "t", {"format-version": 1})
    path = table.manifest("m0.avro", table.data("a"))
    table.document["snapshots"] = [{"snapshot-id": 1, "manifests": [path]}]
    marks = marked(bucket, t=table.commit())
    assert (IcebergKind.DATA, table.path("data/a")) in live(bucket.stores, marks)
    assert root(marks, "t").used["manifest"].files == 1


def test_relative_paths_are_taken_from_the_location_of_each_table(bucket: Bucket) -> None:
    one = Table(bucket, "one", {"format-version": 4})
    one.manifest("m0.avro", File("data/a"), File(f"{BUCKET}/far/b"))
    one.snapshot("metadata/m0.avro")
    two = Table(bucket, "two", {"format-version": 4})
    two.snapshot(one.path("metadata/m0.avro"))
    marks = marked(bucket, one=one.commit(), two=two.commit())
    data = {path for kind, path in live(bucket.stores, marks) if kind == IcebergKind.DATA}
    assert data == {one.path("data/a"), two.path("data/a"), f"{BUCKET}/far/b"}
    only_two = live_of(bucket.stores, marks, root(marks, "two"))
    assert one.path("data/a") not in paths(only_two)


def test_a_view_keeps_its_metadata_alone(bucket: Bucket) -> None:
    document = {"format-version": 1, "view-uuid": "v", "location": f"{BUCKET}/v"}
    path = bucket.write(f"{BUCKET}/v/metadata/00001-x.metadata.json", json.dumps(document).encode())
    marks = mark(spec_for(bucket.stores), [Names({"v": path}, views=["v"])])
    assert live(bucket.stores, marks) == {(IcebergKind.VIEW_METADATA, path)}
    assert root(marks, "v").folders == (f"{BUCKET}/v",)


def test_two_names_for_one_table_are_two_roots(bucket: Bucket) -> None:
    pointer = simple(bucket, "t", "a").commit()
    marks = marked(bucket, one=pointer, two=pointer)
    assert states(marks) == {"one": RootState.COMPLETE, "two": RootState.COMPLETE}
    assert bucket.reads().count(pointer) == 1


def test_an_encrypted_manifest_makes_its_root_incomplete(bucket: Bucket) -> None:
    table = simple(bucket, "t", "a")
    bucket.write(table.path("metadata/m0.avro"), b"AGS1" + bytes(100))
    marks = marked(bucket, t=table.commit())
    assert incomplete(marks) == {"t"}
    assert "encrypted" in root(marks, "t").reasons[0]


def test_a_reference_that_leads_nowhere_makes_its_root_incomplete(bucket: Bucket) -> None:
    table = simple(bucket, "t", "a", refs={"main": {"snapshot-id": 9}})
    marks = marked(bucket, t=table.commit())
    assert "snapshot 9" in root(marks, "t").reasons[0]
    assert (IcebergKind.DATA, table.path("data/a")) in live(bucket.stores, marks)


def test_a_manifest_in_a_store_that_nobody_knows_is_a_problem_and_no_error(bucket: Bucket) -> None:
    table = simple(bucket, "t", "a")
    table.document["snapshots"].append({"snapshot-id": 2, "manifest-list": "hdfs://n/snap.avro"})
    assert incomplete(marked(bucket, t=table.commit())) == {"t"}


def test_metadata_that_cannot_be_read_leaves_a_guess_of_its_folder(bucket: Bucket) -> None:
    marks = marked(bucket, t=f"{BUCKET}/t/metadata/00001-x.metadata.json")
    found = root(marks, "t")
    assert (found.state, found.folders, found.is_guess) == (
        RootState.INCOMPLETE,
        (f"{BUCKET}/t", f"{BUCKET}/t/metadata/"),
        True,
    )


def test_a_lake_without_roots_has_empty_marks(bucket: Bucket) -> None:
    marks = marked(bucket)
    assert (marks.content.rows, marks.roots) == (0, ())


class Moving(Names):
    """Tables that move between being listed and being looked up again."""

    def __init__(self, first: dict[str, str], then: dict[str, str]) -> None:
        super().__init__(first)
        self._then = then

    def look(self, root: RootRow) -> RootRow | None:
        self.pointers = self._then
        return super().look(root)


def test_a_root_that_was_dropped_meanwhile_is_absent(bucket: Bucket) -> None:
    kept, gone = simple(bucket, "kept", "a").commit(), f"{BUCKET}/gone/metadata/1.metadata.json"
    names = Moving({"kept": kept, "gone": gone}, {"kept": kept})
    marks = mark(spec_for(bucket.stores), [names])
    assert states(marks) == {"kept": RootState.COMPLETE, "gone": RootState.ABSENT}


def test_a_root_that_moved_meanwhile_is_followed_to_where_it_is(bucket: Bucket) -> None:
    table = simple(bucket, "t", "old")
    before = table.commit()
    table.document["snapshots"] = []
    table.snapshot(table.manifest("m1.avro", table.data("new")))
    names = Moving({"t": before}, {"t": table.commit()})
    bucket.delete(table.path("metadata/m0.avro"))
    marks = mark(spec_for(bucket.stores), [names])
    assert states(marks) == {"t": RootState.COMPLETE}
    assert root(marks, "t").pointer == names.pointers["t"]
    assert (IcebergKind.DATA, table.path("data/new")) in live(bucket.stores, marks)


def test_a_root_that_cannot_be_looked_up_again_stays_incomplete(bucket: Bucket) -> None:
    class Silent(Names):
        def look(self, root: RootRow) -> RootRow | None:
            raise DeniedError(root.pointer, "no")

    marks = mark(spec_for(bucket.stores), [Silent({"t": f"{BUCKET}/t/x.metadata.json"})])
    assert incomplete(marks) == {"t"}


def test_a_source_that_fails_leaves_everything_unknown(bucket: Bucket) -> None:
    class Broken(Names):
        def collect(self) -> Any:
            yield from super().collect()
            raise LakesweepError("the catalog is down")

    pointer = simple(bucket, "t", "a").commit()
    marks = mark(spec_for(bucket.stores), [Broken({"t": pointer})])
    assert [(each.origin, each.reason) for each in marks.unknown] == [
        ("names", "the catalog is down")
    ]
    assert load_marks(bucket.stores, marks.address).unknown == marks.unknown


def test_a_name_that_leads_nowhere_is_an_incomplete_root(bucket: Bucket) -> None:
    class Half(Names):
        def collect(self) -> Any:
            yield RootProblem(self.name, "no answer", "lost", locations=(f"{BUCKET}/lost",))

    marks = mark(spec_for(bucket.stores), [Half()])
    assert states(marks) == {"lost": RootState.INCOMPLETE}
    assert root(marks, "lost").folders == (f"{BUCKET}/lost",)


def test_only_what_moved_is_marked_again(bucket: Bucket) -> None:
    still, moving = simple(bucket, "still", "a"), simple(bucket, "moving", "b")
    names = Names({"still": still.commit(), "moving": moving.commit()})
    before = mark(spec_for(bucket.stores), [names])
    moving.snapshot(moving.path("metadata/m0.avro"), moving.manifest("m1.avro", moving.data("new")))
    names.pointers |= {"moving": moving.commit(), "born": simple(bucket, "born", "c").commit()}
    bucket.reads()
    after = remark(spec_for(bucket.stores), [names], before)
    assert still.path("metadata/m0.avro") not in (read := bucket.reads())
    assert moving.path("metadata/m0.avro") not in read
    assert states(after) == dict.fromkeys(("still", "moving", "born"), RootState.COMPLETE)
    data = {path for kind, path in live(bucket.stores, after) if kind == IcebergKind.DATA}
    assert data == {moving.path("data/new"), f"{BUCKET}/born/data/c"}


def test_what_was_incomplete_is_marked_again(bucket: Bucket) -> None:
    table = simple(bucket, "t", "a")
    names = Names({"t": table.commit()})
    manifest = bucket.read(table.path("metadata/m0.avro"))
    bucket.delete(table.path("metadata/m0.avro"))
    before = mark(spec_for(bucket.stores), [names])
    bucket.write(table.path("metadata/m0.avro"), manifest)
    after = remark(spec_for(bucket.stores), [names], before)
    assert states(after) == {"t": RootState.COMPLETE}
    assert (IcebergKind.DATA, table.path("data/a")) in live(bucket.stores, after)


def test_roots_that_are_gone_are_no_roots_any_more(bucket: Bucket) -> None:
    names = Names({"t": simple(bucket, "t", "a").commit()})
    before = mark(spec_for(bucket.stores), [names])
    names.pointers.clear()
    assert remark(spec_for(bucket.stores), [names], before).roots == ()


def test_every_row_leads_to_a_source_that_is_known(bucket: Bucket) -> None:
    marks = marked(bucket, t=simple(bucket, "t", "a").commit())
    rows = {name: [] for name in ("content", "sources", "edges", "usage")} | {
        name: [
            row for b in read_dataset(bucket.stores, marks.datasets[name]) for row in b.to_pylist()
        ]
        for name in ("content", "sources", "edges", "usage")
    }
    known = {row["source"] for row in rows["sources"]}
    assert {row["source"] for row in rows["content"]} == known
    assert {row["source"] for row in rows["usage"]} == known
    assert {n for row in rows["edges"] for n in row.values()} <= known
    assert sum(row["files"] for row in rows["usage"]) == len(rows["content"])
