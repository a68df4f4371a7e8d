from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import DamagedError, ExistsError, FormatError, MissingError, UnavailableError
from lakesweep.storage.datasets import writer
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import load_dataset, read_dataset, skim_dataset
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset, parts_of, write_parts
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, Recording, StorageFault, fail

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
    ]
)
STORES = Stores()


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    columns = [[f"s3://lake/{n}" for n in numbers], list(numbers), [None] * count]
    return pa.RecordBatch.from_arrays(
        [pa.array(*pair) for pair in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
    )


def write(address: str, *batches: pa.RecordBatch, stores: Stores = STORES) -> list[Part]:
    writer = DatasetWriter(stores, address, SCHEMA)
    for batch in batches:
        writer.add(batch)
    return list(writer.finish())


def sizes(dataset: Dataset, stores: Stores = STORES, *, verify: bool = True) -> list[int]:
    read = read_dataset(stores, dataset, ["size_bytes"], verify=verify)
    return sorted(size for batch in read for size in batch["size_bytes"].to_pylist())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"{tmp_path}/listing"


@pytest.fixture
def dataset(address: str) -> Dataset:
    parts = [*write(address, rows(0, 3), rows(3, 2)), *write(address, rows(5, 4))]
    return commit_dataset(STORES, address, parts, SCHEMA)


def only_part(dataset: Dataset) -> Path:
    return Path(dataset.address) / dataset.parts[0].name


# --- what was committed is what is read ------------------------------------------------------


@pytest.mark.parametrize("verify", [False, True])
def test_the_rows_of_all_writers_are_read(dataset: Dataset, verify: bool) -> None:
    assert sizes(dataset, verify=verify) == list(range(9))


def test_a_skim_has_the_same_rows_in_the_same_order(dataset: Dataset) -> None:
    whole = pa.Table.from_batches(read_dataset(STORES, dataset))
    assert pa.Table.from_batches(skim_dataset(STORES, dataset)).equals(whole)
    odd = pc.field("size_bytes") >= 4
    some = pa.Table.from_batches(skim_dataset(STORES, dataset, odd))
    assert some.equals(whole.filter(odd))


def test_a_skim_reads_no_more_than_is_taken(address: str) -> None:
    many = commit_dataset(STORES, address, write(address, rows(0, 200_000)), SCHEMA)
    store = Recording(LocalStore())
    first = next(skim_dataset(Stores(replace={"/": store}), many))
    assert first.num_rows < 10_000
    assert store.keys("read_range")
    assert not store.keys("read")


def test_loading_gives_what_was_committed(dataset: Dataset) -> None:
    assert load_dataset(STORES, dataset.address) == dataset
    assert (dataset.rows, len(dataset.parts)) == (9, 2)


def test_a_dataset_without_rows_has_no_parts(address: str) -> None:
    parts = write(address, rows(0, 0))
    dataset = commit_dataset(STORES, address, parts, SCHEMA)
    assert (parts, list(read_dataset(STORES, dataset)), dataset.rows) == ([], [], 0)


def test_all_columns_come_with_their_types(dataset: Dataset) -> None:
    batch = next(read_dataset(STORES, dataset))
    assert batch.schema.equals(SCHEMA)


def test_a_filter_sees_columns_that_are_not_asked_for(dataset: Dataset) -> None:
    found = read_dataset(STORES, dataset, ["path"], pc.field("size_bytes") == 7)
    assert pa.Table.from_batches(found).to_pylist() == [{"path": "s3://lake/7"}]


def test_another_store_holds_datasets_as_well() -> None:
    address = "memory://datasets/somewhere"
    dataset = commit_dataset(STORES, address, write(address, rows(0, 5)), SCHEMA)
    assert sizes(load_dataset(STORES, address + "/")) == sizes(dataset) == list(range(5))


def test_a_dataset_travels_between_processes(dataset: Dataset) -> None:
    assert pickle.loads(pickle.dumps(dataset)) == dataset


def test_a_task_gives_its_parts_as_rows(address: str) -> None:
    (batch,) = write_parts(STORES, address, SCHEMA, [rows(0, 3), rows(3, 1)])
    dataset = commit_dataset(STORES, address, parts_of(batch), SCHEMA)
    assert sizes(dataset) == [0, 1, 2, 3]


def test_columns_are_found_by_name(address: str) -> None:
    parts = write(address, rows(0, 2).select(["modified", "size_bytes", "path"]))
    assert sizes(commit_dataset(STORES, address, parts, SCHEMA)) == [0, 1]


# --- how it is laid out ----------------------------------------------------------------------


def test_many_small_batches_make_few_row_groups(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_ROWS_IN_A_GROUP", 10)
    (part,) = write(address, *(rows(n, 4) for n in range(6)))
    groups = pq.ParquetFile(f"{address}/{part.name}").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [12, 12]


def test_a_large_batch_makes_several_row_groups(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_ROWS_IN_A_GROUP", 10)
    (part,) = write(address, rows(0, 50))
    assert pq.ParquetFile(f"{address}/{part.name}").metadata.num_row_groups == 3


def test_a_part_that_has_grown_large_is_stored_and_the_next_begun(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_ROWS_IN_A_GROUP", 10)
    monkeypatch.setattr(writer, "_BYTES_IN_A_PART", 1)
    parts = write(address, rows(0, 10), rows(10, 10), rows(20, 5))
    assert [part.rows for part in parts] == [10, 10, 5]


def test_only_the_bytes_of_the_columns_are_read(address: str) -> None:
    store = Recording(LocalStore())
    stores = Stores(replace={"/": store})
    dataset = commit_dataset(stores, address, write(address, rows(0, 50_000)), SCHEMA)
    store.calls.clear()
    assert len(sizes(dataset, stores, verify=False)) == 50_000
    assert {call.method for call in store.calls} == {"head", "read_range"}


# --- commits ---------------------------------------------------------------------------------


def test_parts_that_were_not_committed_are_litter(dataset: Dataset) -> None:
    write(dataset.address, rows(100, 5))
    assert sizes(load_dataset(STORES, dataset.address)) == list(range(9))


def test_a_folder_without_a_manifest_means_nothing(address: str) -> None:
    write(address, rows(0, 5))
    with pytest.raises(MissingError, match="no committed dataset"):
        load_dataset(STORES, address)


def test_committing_the_same_again_changes_nothing(dataset: Dataset) -> None:
    again = commit_dataset(STORES, dataset.address, reversed(dataset.parts), SCHEMA)
    assert again == dataset == load_dataset(STORES, dataset.address)


def test_a_dataset_is_never_replaced(dataset: Dataset) -> None:
    others = write(dataset.address, rows(100, 5))
    with pytest.raises(ExistsError, match="another dataset"):
        commit_dataset(STORES, dataset.address, others, SCHEMA)
    assert load_dataset(STORES, dataset.address) == dataset


def test_a_part_that_is_named_twice_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="repeated"):
        commit_dataset(STORES, dataset.address, [*dataset.parts, *dataset.parts], SCHEMA)


def test_a_type_that_cannot_be_written_down_is_refused(address: str) -> None:
    schema = pa.schema([("paths", pa.struct([("path", pa.string())]))])
    with pytest.raises(ValueError, match="struct"):
        commit_dataset(STORES, address, [], schema)


# --- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [False, True])
def test_a_missing_part_is_told(dataset: Dataset, verify: bool) -> None:
    only_part(dataset).unlink()
    with pytest.raises(DamagedError, match="is missing"):
        sizes(dataset, verify=verify)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("change", [b"", b"PAR1"])
def test_a_part_of_another_size_is_told(dataset: Dataset, verify: bool, change: bytes) -> None:
    data = only_part(dataset).read_bytes()
    only_part(dataset).write_bytes(data[:-1] if not change else data + change)
    with pytest.raises(DamagedError, match=f"not {len(data)}"):
        sizes(dataset, verify=verify)


def test_another_hash_is_told_before_the_first_row(dataset: Dataset) -> None:
    data = bytearray(only_part(dataset).read_bytes())
    data[len(data) // 2] ^= 1
    only_part(dataset).write_bytes(data)
    with pytest.raises(DamagedError, match="SHA-256"):
        next(read_dataset(STORES, dataset))


def test_a_damaged_page_is_told_without_hashes(address: str) -> None:
    dataset = commit_dataset(STORES, address, write(address, rows(0, 1000)), SCHEMA)
    path = only_part(dataset)
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match="cannot be read"):
        sizes(dataset, verify=False)


def test_a_part_with_other_rows_is_told(dataset: Dataset) -> None:
    wrong = replace(dataset, parts=(msgspec.structs.replace(dataset.parts[0], rows=77),))
    with pytest.raises(DamagedError, match="rows, not 77"):
        sizes(wrong)


def test_a_part_with_other_columns_is_told(dataset: Dataset) -> None:
    wrong = replace(dataset, schema=pa.schema([*list(SCHEMA)[:2], pa.field("etag", pa.string())]))
    with pytest.raises(DamagedError, match="wrong columns"):
        sizes(wrong)


def test_an_error_of_the_store_stays_what_it_is(dataset: Dataset) -> None:
    store = Faulty(LocalStore(), [StorageFault(fail(UnavailableError), frozenset({"read_range"}))])
    with pytest.raises(UnavailableError):
        sizes(dataset, Stores(replace={"/": store}), verify=False)


# --- the manifest ----------------------------------------------------------------------------


def test_the_manifest_is_as_documented(address: str) -> None:
    part = Part("part-" + "0" * 32 + ".parquet", 2, 3, "ab")
    commit_dataset(STORES, address, [part], SCHEMA)
    assert json.loads(Path(address, "_dataset.json").read_text()) == {
        "version": 1,
        "schema": [
            {"name": "path", "type": "string", "nullable": False},
            {"name": "size_bytes", "type": "int64", "nullable": True},
            {"name": "modified", "type": "timestamp[us, tz=UTC]", "nullable": True},
        ],
        "parts": [{"name": part.name, "rows": 2, "bytes": 3, "sha256": "ab"}],
        "rows": 2,
        "sha256": "d936ba0c8f3b91351ce233bd0b7da831ee4fd29d78141ba2b268409f475751a7",
    }


def changed(dataset: Dataset, path: Sequence[str | int], value: object) -> None:
    manifest = Path(dataset.address, "_dataset.json")
    document = json.loads(manifest.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    manifest.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["rows"], 10),
        (["parts"], []),
        (["parts", 0, "rows"], 0),
        (["parts", 0, "name"], "../other.parquet"),
        (["parts", 0, "bytes"], "many"),
        (["parts", 0, "extra"], 1),
        (["schema", 0, "type"], "float"),
        (["schema", 0, "nullable"], True),
        (["sha256"], "0" * 64),
    ],
)
def test_a_manifest_that_contradicts_itself_is_told(
    dataset: Dataset, path: Sequence[str | int], value: object
) -> None:
    changed(dataset, path, value)
    with pytest.raises(DamagedError, match="not a dataset manifest"):
        load_dataset(STORES, dataset.address)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"version":1}'])
def test_what_is_no_manifest_is_told(dataset: Dataset, data: bytes) -> None:
    Path(dataset.address, "_dataset.json").write_bytes(data)
    with pytest.raises(DamagedError, match="not a dataset manifest"):
        load_dataset(STORES, dataset.address)


def test_a_newer_version_is_told_as_such(dataset: Dataset) -> None:
    changed(dataset, ["version"], 2)
    changed(dataset, ["partitions"], [])
    with pytest.raises(FormatError, match="newer version"):
        load_dataset(STORES, dataset.address)
