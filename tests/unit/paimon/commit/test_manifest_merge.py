"""Manifests that a commit writes together, and what stays as it is."""

from __future__ import annotations

from lakesweep.paimon.commit.manifest_rows import list_row
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.partitioning import Partitioning, PartitionKey
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.paimon.partitions.snapshot_partitions import SnapshotPartitions
from tests.paimon_states import live_files, manifests, newest, records
from tests.paimon_tables import File, Row, Table, encode, entry_schema


def _row(value: str) -> bytes:
    return encode_row([value], [parse_type("STRING")])


KEPT, DROPPED = _row("kept"), _row("dropped")


def _table(**options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return Table(partition_keys=["k"], options=named)


def _add(name: str, partition: bytes = KEPT) -> File:
    return File(name, partition=partition)


def _delete(name: str) -> File:
    return File(name, kind=1, partition=KEPT)


def _drop(made: Table, *rows: Row) -> tuple[PaimonTable, PaimonSnapshot]:
    """Commit manifests as one snapshot, and drop a partition that the last one adds."""
    added = made.manifest(_add("gone", DROPPED))
    made.snapshot(1, added, base=rows, totalRecordCount=9)
    table = PaimonTable.open(made.bucket.stores, made.address)
    before = live_files(table, newest(table))
    assert before.keys() >= {"k=dropped/bucket-0/gone"}

    def choose(survey: SnapshotPartitions) -> list[bytes]:
        return [data for data in survey.partitions if data == DROPPED]

    snapshot = drop_partitions(table.main, choose).snapshot
    assert snapshot is not None
    after = live_files(table, snapshot)
    assert after == {path: it for path, it in before.items() if path.startswith("k=kept/")}
    return table, snapshot


def _base(table: PaimonTable, snapshot: PaimonSnapshot) -> list[str]:
    return [row["_FILE_NAME"] for row in records(table, snapshot.base_manifest_list)]


def test_few_manifests_stay_as_they_are() -> None:
    made = _table()
    rows = [made.manifest(_add(f"f{n}")) for n in range(5)]
    table, snapshot = _drop(made, *rows)
    assert _base(table, snapshot)[:5] == [row["_FILE_NAME"] for row in rows]


def test_as_many_as_the_table_says_become_one_and_what_is_deleted_goes() -> None:
    made = _table(manifest__merge_min_count="4")
    rows = [
        made.manifest(_add("a"), _add("b")),
        made.manifest(_delete("a")),
        made.manifest(_add("c")),
    ]
    table, snapshot = _drop(made, *rows)
    (name,) = _base(table, snapshot)
    entries = records(table, name)
    assert [entry["_FILE"]["_FILE_NAME"] for entry in entries] == ["b", "c", "gone"]
    (row,) = records(table, snapshot.base_manifest_list)
    assert row["_PARTITION_STATS"] == {
        "_MIN_VALUES": DROPPED,
        "_MAX_VALUES": KEPT,
        "_NULL_COUNTS": [0],
    }
    assert row["_FILE_SIZE"] == len(table.read(table.layout.manifest(name)))


def test_bounds_are_in_the_order_of_java() -> None:
    """A reader who asks for -0.0 passes over a manifest that begins at 0.0."""
    kind = parse_type("DOUBLE")
    naming = Partitioning((PartitionKey("k", kind),), "", legacy=True)
    values = [encode_row([value], [kind]) for value in (0.0, -0.0, float("nan"), 1.0)]
    entries = [File("x", partition=value).row() for value in values]
    for order in (entries, entries[::-1]):
        found = list_row("m", 1, order, naming)["_PARTITION_STATS"]
        assert (found["_MIN_VALUES"], found["_MAX_VALUES"]) == (values[1], values[2])


def test_a_delete_of_a_file_in_an_older_manifest_stays() -> None:
    made = _table(manifest__merge_min_count="2", manifest__target_file_size="900")
    large = made.manifest(*(_add(f"{n:03}") for n in range(200)))
    rows = [large, made.manifest(_delete("005")), made.manifest(_add("c"))]
    made.options = {**made.options, "manifest.target-file-size": f"{large['_FILE_SIZE']} b"}
    made.schema()
    table, snapshot = _drop(made, *rows)
    first, *rest = _base(table, snapshot)
    assert first == large["_FILE_NAME"]
    assert len(rest) < 3
    kinds = {e["_FILE"]["_FILE_NAME"]: e["_KIND"] for name in rest for e in records(table, name)}
    assert kinds == {"005": 1, "c": 0, "gone": 0}


def test_a_full_merge_lets_deletes_reach_old_manifests_and_leaves_others_alone() -> None:
    made = _table()
    hit = made.manifest(*(_add(f"a{n:03}") for n in range(200)))
    untouched = made.manifest(*(_add(f"b{n:03}") for n in range(200)))
    target = min(hit["_FILE_SIZE"], untouched["_FILE_SIZE"])
    made.options = {
        "manifest.target-file-size": f"{target} b",
        "manifest.full-compaction-threshold-size": "1 b",
    }
    made.schema()
    table, snapshot = _drop(made, hit, untouched, made.manifest(_delete("a005")))
    first, *rest = _base(table, snapshot)
    assert first == untouched["_FILE_NAME"]
    assert hit["_FILE_NAME"] not in rest
    assert all(row["_NUM_DELETED_FILES"] == 0 for row in manifests(table, snapshot)[:-1])


def test_a_file_that_is_deleted_and_added_again_is_live() -> None:
    made = _table(manifest__merge_min_count="2")
    rows = [made.manifest(_add("a")), made.manifest(_delete("a")), made.manifest(_add("a"))]
    table, snapshot = _drop(made, *rows)
    assert "k=kept/bucket-0/a" in live_files(table, snapshot)


def test_what_is_written_is_split_at_the_size_that_the_table_wants() -> None:
    made = _table(manifest__merge_min_count="2", manifest__target_file_size="1 kb")
    rows = [made.manifest(*(_add(f"{m}-{n}") for n in range(30))) for m in range(2)]
    made.options = {**made.options, "manifest.target-file-size": f"{rows[0]['_FILE_SIZE'] + 1} b"}
    made.schema()
    table, snapshot = _drop(made, *rows)
    assert len(_base(table, snapshot)) >= 2


def test_entries_keep_all_that_makes_a_file_itself() -> None:
    made = _table(data_file__external_paths="s3://elsewhere")
    odd = File(
        "odd",
        partition=DROPPED,
        bucket=-2,
        level=5,
        extra=("odd.index", "odd.blobref"),
        external_path="s3://elsewhere/k=dropped/bucket-postpone/odd",
        embedded=b"\0\xff",
    )
    rows = [made.manifest(odd)]
    table, snapshot = _drop(made, *rows)
    (delta,) = records(table, snapshot.delta_manifest_list)
    deleted = records(table, delta["_FILE_NAME"])
    before = records(table, rows[0]["_FILE_NAME"])
    assert [{**entry, "_KIND": 0} for entry in deleted][:1] == before
    assert (delta["_TOTAL_BUCKETS"], delta["_NUM_DELETED_FILES"]) == (1, 2)


def test_manifests_of_old_versions_are_written_as_plain_records_with_all_fields() -> None:
    made = _table()
    old = File("old", partition=DROPPED)
    data = encode(entry_schema(old=True), [old.row()])
    rows = [made.manifest(old, data=data), made.manifest(File("new", partition=DROPPED))]
    table, snapshot = _drop(made, *rows)
    (delta,) = records(table, snapshot.delta_manifest_list)
    entries = records(table, delta["_FILE_NAME"])
    assert [entry["_FILE"]["_FILE_NAME"] for entry in entries] == ["old", "new", "gone"]
    assert all("_WRITE_COLS" in entry["_FILE"] for entry in entries)
