"""Tables that nobody lists any more, found by their metadata files."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError, DeniedError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import facts_of
from lakesweep.iceberg.metadata import load_metadata
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.sweep.mark.mark_phase import mark, remark
from lakesweep.sweep.mark.marks import Marks, RootState
from lakesweep.sweep.references import PurgeTarget, RootsBeside
from lakesweep.sweep.roots.iceberg_scan import ScanRoots, later_versions
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.marked import live, root, spec_for, states


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def scan(bucket: Bucket, path: str = BUCKET, *, keep: bool = True) -> ScanRoots:
    """A scan of the bucket as it is now, whatever is written later."""
    batches = list(list_files(Stores(replace={BUCKET: bucket.store}), f"{BUCKET}/"))

    def listing() -> Iterator[pa.RecordBatch]:
        return iter(batches)

    return ScanRoots(bucket.stores, path, keep, listing)


def rows(source: ScanRoots) -> list[RootRow]:
    return [found for found in source.collect() if isinstance(found, RootRow)]


def table(bucket: Bucket, name: str, commits: int = 1, *, log: int = 100) -> Table:
    """A table with a history, whose metadata files name the ones before them."""
    made = Table(bucket, name)
    made.snapshot(made.manifest("m0.avro", made.data("a")))
    written: list[str] = []
    for _ in range(commits):
        made.document["metadata-log"] = [{"metadata-file": path} for path in written[-log:]]
        written.append(made.commit())
    return made


def marked(bucket: Bucket, source: ScanRoots, **pointers: str) -> Marks:
    return mark(spec_for(bucket.stores), [Names(pointers), source])


def test_the_newest_metadata_of_each_table_is_found_with_few_reads(bucket: Bucket) -> None:
    newest = {table(bucket, name, 12).path("metadata/00012-x.metadata.json") for name in "tu"}
    source = scan(bucket)
    assert {row.pointer for row in rows(source)} == newest
    assert set(bucket.reads()) == newest


def test_metadata_that_no_log_names_any_more_is_read_in_steps(bucket: Bucket) -> None:
    table(bucket, "t", 12, log=3)
    assert [row.pointer for row in rows(scan(bucket))] == [
        f"{BUCKET}/t/metadata/00012-x.metadata.json"
    ]
    assert len(bucket.reads()) == 3


def test_two_tables_in_one_folder_are_told_apart(bucket: Bucket) -> None:
    table(bucket, "t", 2)
    twin = {**table(bucket, "other").document, "location": f"{BUCKET}/t"}
    path = f"{BUCKET}/t/metadata/00001-y.metadata.json"
    bucket.write(path, json.dumps(twin).encode())
    found = {row.pointer for row in rows(scan(bucket, f"{BUCKET}/t"))}
    assert found == {f"{BUCKET}/t/metadata/00002-x.metadata.json", path}


def foreign_file(bucket: Bucket, folder: str, *log: str) -> str:
    """Metadata of another table that was put into a folder, and claims a history there."""
    document = {**table(bucket, "other").document, "location": f"{BUCKET}/{folder}"}
    document["metadata-log"] = [{"metadata-file": path} for path in log]
    path = f"{BUCKET}/{folder}/metadata/00099-z.metadata.json"
    return bucket.write(path, json.dumps(document).encode())


@pytest.mark.parametrize("order", ["uuid first", "uuid last"])
def test_a_log_hides_no_file_of_another_table(bucket: Bucket, order: str) -> None:
    lost = table(bucket, "lost", 2)
    newest = lost.path("metadata/00002-x.metadata.json")
    if order == "uuid last":
        document = json.loads(bucket.read(newest))
        document["table-uuid"] = document.pop("table-uuid")
        bucket.write(newest, json.dumps(document).encode())
    stranger = foreign_file(bucket, "lost", lost.path("metadata/00001-x.metadata.json"), newest)
    found = {row.pointer for row in rows(scan(bucket, f"{BUCKET}/lost"))}
    assert found == {stranger, newest}


def test_a_newer_file_of_another_table_is_no_substitute_for_a_damaged_one(bucket: Bucket) -> None:
    lost = table(bucket, "lost", 2)
    newest = lost.path("metadata/00002-x.metadata.json")
    bucket.write(newest, bucket.read(newest)[:-20])
    foreign_file(bucket, "lost", newest)
    found = scan(bucket, f"{BUCKET}/lost").collect()
    assert [each.name for each in found if isinstance(each, RootProblem)] == [newest]


def test_of_two_with_one_number_both_are_kept(bucket: Bucket) -> None:
    made = table(bucket, "t")
    path = made.path("metadata/00001-y.metadata.json")
    bucket.write(path, json.dumps(made.document).encode())
    assert len(rows(scan(bucket))) == 2


def test_only_what_lies_below_the_path_is_found(bucket: Bucket) -> None:
    table(bucket, "t1")
    table(bucket, "t10")
    assert [row.locations for row in rows(scan(bucket, f"{BUCKET}/t1"))] == [(f"{BUCKET}/t1",)]


def test_a_view_is_found_as_a_view(bucket: Bucket) -> None:
    document = {"format-version": 1, "view-uuid": "v", "location": f"{BUCKET}/v"}
    bucket.write(f"{BUCKET}/v/metadata/00000-x.gz.metadata.json", json.dumps(document).encode())
    assert [row.kind for row in rows(scan(bucket))] == [RootKind.ICEBERG_VIEW]


def test_a_table_that_no_catalog_knows_is_kept(bucket: Bucket) -> None:
    table(bucket, "known")
    lost = table(bucket, "lost")
    marks = marked(bucket, scan(bucket), known=f"{BUCKET}/known/metadata/00001-x.metadata.json")
    pointer = lost.path("metadata/00001-x.metadata.json")
    assert states(marks) == {"known": RootState.COMPLETE, pointer: RootState.COMPLETE}
    assert root(marks, pointer).origin == f"scan of {BUCKET}"
    assert (IcebergKind.DATA, lost.path("data/a")) in live(bucket.stores, marks)


def test_a_table_that_no_catalog_knows_is_only_reported_if_so_told(bucket: Bucket) -> None:
    lost = table(bucket, "lost")
    marks = marked(bucket, scan(bucket, keep=False))
    assert marks.roots == ()
    assert marks.content.rows == 0
    assert [(found.pointer, found.folders) for found in marks.found] == [
        (lost.path("metadata/00001-x.metadata.json"), (lost.location,))
    ]


def test_older_metadata_of_a_known_table_keeps_nothing(bucket: Bucket) -> None:
    """Such as that of a commit which failed, whether a log names it or not."""
    known = table(bucket, "t")
    known.snapshot(known.manifest("m1.avro", known.data("failed")))
    known.commit()
    pointer = table(bucket, "t", 3).path("metadata/00003-y.metadata.json")
    bucket.write(pointer, bucket.read(pointer.replace("-y", "-x")))
    bucket.delete(pointer.replace("-y", "-x"))
    marks = marked(bucket, scan(bucket), t=pointer)
    assert states(marks) == {"t": RootState.COMPLETE}
    assert (IcebergKind.DATA, known.path("data/failed")) not in live(bucket.stores, marks)


def test_metadata_that_is_newer_than_what_the_catalog_knows_is_kept(bucket: Bucket) -> None:
    """Another catalog, which nobody named, may have taken the table further."""
    known = table(bucket, "t")
    pointer = known.path("metadata/00001-x.metadata.json")
    known.snapshot(known.manifest("m1.avro", known.data("later")))
    newer = known.commit()
    marks = marked(bucket, scan(bucket), t=pointer)
    assert states(marks) == {"t": RootState.COMPLETE, newer: RootState.COMPLETE}
    assert (IcebergKind.DATA, known.path("data/later")) in live(bucket.stores, marks)


def test_a_copy_in_another_folder_is_kept_though_a_catalog_knows_its_id(bucket: Bucket) -> None:
    origin = table(bucket, "t")
    copy = Table(bucket, "copy", {"table-uuid": origin.document["table-uuid"]})
    copy.snapshot(copy.manifest("m0.avro", copy.data("a")))
    copied = copy.commit()
    marks = marked(bucket, scan(bucket), t=origin.path("metadata/00001-x.metadata.json"))
    assert states(marks) == {"t": RootState.COMPLETE, copied: RootState.COMPLETE}


def posing(bucket: Bucket, folder: str, lost: Table, *log: str) -> Table:
    """A table that has the id of another one, and its files in the log."""
    entries = [{"metadata-file": path} for path in log]
    uuid = lost.document["table-uuid"]
    return Table(bucket, folder, {"table-uuid": uuid, "metadata-log": entries})


def test_a_table_hides_none_in_another_folder_though_it_has_its_id_and_log(bucket: Bucket) -> None:
    """Nobody can tell whether it moved there, or whether somebody made that up."""
    lost = table(bucket, "lost")
    pointer = lost.path("metadata/00001-x.metadata.json")
    forged = posing(bucket, "mine", lost, pointer)
    marks = marked(bucket, scan(bucket), mine=forged.commit())
    assert states(marks) == {"mine": RootState.COMPLETE, pointer: RootState.COMPLETE}
    assert (IcebergKind.DATA, lost.path("data/a")) in live(bucket.stores, marks)


def test_a_purge_asks_a_table_whose_id_and_log_its_target_claims(bucket: Bucket) -> None:
    lost = table(bucket, "lost")
    pointer = lost.path("metadata/00001-x.metadata.json")
    forged = posing(bucket, "mine", lost, pointer).commit()
    target = PurgeTarget(forged, facts_of(load_metadata(bucket.stores, forged)))
    beside = RootsBeside(scan(bucket), target)
    assert [getattr(found, "pointer", None) for found in beside.collect()] == [pointer]


# Names without a number.

OLD, MIDDLE, NEW = "9c0ffee1", "1badcafe", "5eed0000"


def unnumbered(bucket: Bucket, name: str, at_ms: int | None, *log: str, **document: object) -> str:
    """Metadata of table `t` under a name that tells nothing, with the time of each in its log."""
    entries = [{"metadata-file": path, "timestamp-ms": 10} for path in log]
    made = Table(bucket, "t", {"metadata-log": entries, **document})
    if at_ms is not None:
        made.document["last-updated-ms"] = at_ms
    path = made.path(f"metadata/{name}.metadata.json")
    return bucket.write(path, json.dumps(made.document).encode())


def found_by_scan(bucket: Bucket) -> set[str]:
    return {row.pointer for row in rows(scan(bucket))}


def test_names_without_a_number_tell_no_order(bucket: Bucket) -> None:
    old = unnumbered(bucket, OLD, 10)
    middle = unnumbered(bucket, MIDDLE, 20, old)
    assert found_by_scan(bucket) == {middle}
    new = unnumbered(bucket, NEW, 30, old, middle)
    assert found_by_scan(bucket) == {new}
    assert scan(bucket).look(rows(scan(bucket))[0]) == rows(scan(bucket))[0]


def test_a_number_at_the_beginning_of_an_id_is_no_version(bucket: Bucket) -> None:
    old = unnumbered(bucket, "98765432-1111-4222-8333-123456789012", 10)
    new = unnumbered(bucket, "12345678-1111-4222-8333-123456789012", 20, old)
    assert found_by_scan(bucket) == {new}


@pytest.mark.parametrize(
    "newer",
    [
        {"at_ms": 10},  # at the same time
        {"at_ms": None},  # nobody knows when
        {"at_ms": 5},  # before, though its log has it
        {"at_ms": 20, "last-sequence-number": 1},  # it lacks a snapshot
    ],
)
def test_files_in_doubt_are_all_kept(bucket: Bucket, newer: dict[str, int]) -> None:
    old = unnumbered(bucket, OLD, 10, **{"last-sequence-number": 2})
    fields = {"last-sequence-number": 2, **newer}
    other = unnumbered(bucket, NEW, fields.pop("at_ms"), old, **fields)
    assert found_by_scan(bucket) == {old, other}


def test_a_log_that_reaches_further_back_than_a_file_is_of_another_branch(bucket: Bucket) -> None:
    """What its log does not name may be what was committed, and the newer one the failed try."""
    base = unnumbered(bucket, OLD, 10)
    committed = unnumbered(bucket, MIDDLE, 20, base)
    failed = unnumbered(bucket, NEW, 30, base)
    assert found_by_scan(bucket) == {committed, failed}


def test_a_file_that_is_older_than_a_whole_log_is_outdated(bucket: Bucket) -> None:
    unnumbered(bucket, OLD, 5)
    new = unnumbered(bucket, NEW, 20, f"{BUCKET}/t/metadata/gone.metadata.json")
    assert found_by_scan(bucket) == {new}


def test_files_that_name_each_other_are_not_both_outdated(bucket: Bucket) -> None:
    paths = [f"{BUCKET}/t/metadata/{name}.metadata.json" for name in (OLD, MIDDLE, NEW)]
    for name, log in zip((OLD, MIDDLE, NEW), (paths[1], paths[2], paths[0]), strict=True):
        unnumbered(bucket, name, 10, log)
    assert found_by_scan(bucket) == set(paths)


def test_a_catalog_that_takes_a_table_over_counts_from_the_beginning(bucket: Bucket) -> None:
    old = unnumbered(bucket, "v12", 10)
    new = unnumbered(bucket, "00000-x", 20, old)
    assert found_by_scan(bucket) == {new}


def test_numbers_that_contradict_the_documents_leave_both(bucket: Bucket) -> None:
    paths = {unnumbered(bucket, "00007-x", 10), unnumbered(bucket, "00003-x", 100_000)}
    assert found_by_scan(bucket) == paths


def test_a_root_named_by_a_file_without_a_number_is_followed(bucket: Bucket) -> None:
    old = unnumbered(bucket, OLD, 10)
    new = unnumbered(bucket, MIDDLE, 20, old)
    found = [getattr(each, "pointer", None) for each in later_versions(bucket.stores, old)]
    assert found == [new]
    assert list(later_versions(bucket.stores, new)) == []


@pytest.mark.parametrize(
    "content", [b'{"format-ver', b'{"format-version": 9, "location": "x"}', b"\x28\xb5\x2f\xfd"]
)
def test_metadata_that_nobody_can_read_is_not_replaced_by_an_older_one(
    bucket: Bucket, content: bytes
) -> None:
    table(bucket, "t")
    newest = bucket.write(f"{BUCKET}/t/metadata/00002-x.metadata.json", content)
    row, problem = scan(bucket).collect()
    assert isinstance(row, RootRow)
    assert isinstance(problem, RootProblem)
    assert (problem.name, problem.locations) == (newest, (f"{BUCKET}/t",))
    with pytest.raises(DamagedError):
        scan(bucket).look(row)


def test_damaged_metadata_beside_a_newer_one_keeps_nothing(bucket: Bucket) -> None:
    newest = table(bucket, "t", 3).path("metadata/00003-x.metadata.json")
    bucket.write(f"{BUCKET}/t/metadata/00002-y.metadata.json", b'{"format-ver')
    assert [getattr(found, "pointer", None) for found in scan(bucket).collect()] == [newest]


def test_damaged_metadata_alone_keeps_its_folder(bucket: Bucket) -> None:
    bucket.write(f"{BUCKET}/t/metadata/00002-x.metadata.json", b'{"format-ver')
    (problem,) = scan(bucket).collect()
    assert isinstance(problem, RootProblem)
    assert problem.locations == (f"{BUCKET}/t",)


def test_metadata_that_may_not_be_read_keeps_its_folder_unless_nothing_is_kept(
    bucket: Bucket,
) -> None:
    table(bucket, "t")
    for keep in (True, False):
        source = scan(bucket, keep=keep)
        denied = Faulty(bucket.store, [StorageFault(fail(DeniedError), frozenset({"read"}))])
        closed = ScanRoots(Stores(replace={BUCKET: denied}), BUCKET, keep, source.listing)
        assert len(list(closed.collect())) == keep


def test_a_lost_table_that_goes_on_living_is_followed(bucket: Bucket) -> None:
    lost = table(bucket, "lost")
    source = scan(bucket)
    lost.snapshot(lost.manifest("m1.avro", lost.data("new")))
    newest = lost.commit()
    marks = marked(bucket, source)
    assert [found.pointer for found in marks.roots] == [newest]
    assert (IcebergKind.DATA, lost.path("data/new")) in live(bucket.stores, marks)


def test_a_lost_table_that_moved_since_is_marked_again(bucket: Bucket) -> None:
    lost = table(bucket, "lost")
    source = scan(bucket)
    before = marked(bucket, source)
    assert remark(spec_for(bucket.stores), [source], before).content.rows == 0
    lost.snapshot(lost.manifest("m1.avro", lost.data("new")))
    lost.commit()
    after = remark(spec_for(bucket.stores), [source], before)
    assert (IcebergKind.DATA, lost.path("data/new")) in live(bucket.stores, after)


def test_a_lost_table_whose_files_went_meanwhile_is_absent(bucket: Bucket) -> None:
    lost = table(bucket, "lost")
    source = scan(bucket)
    found = list(source.collect())
    bucket.delete(lost.path("metadata/00001-x.metadata.json"))
    assert isinstance(found[0], RootRow)
    assert source.look(found[0]) is None
