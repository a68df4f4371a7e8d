"""Earlier marks save reading manifests, and can do no harm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.storage import file_identity
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.file_identity import file_hashes
from lakesweep.sweep.columns import hashes_of
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marks import Marks, RootState
from tests.iceberg_tables import Bucket, File, Names, Table
from tests.marked import incomplete, live, root, spec_for, states


class Lake:
    """Two tables of two manifests each, which can be marked again and again."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.stores = self.bucket.stores
        self.tables = [Table(self.bucket, name) for name in ("one", "two")]
        self.names = Names()
        for table in self.tables:
            self.grow(table, "m0.avro", "a", "b")
            self.grow(table, "m1.avro", "c")

    def grow(self, table: Table, name: str, *files: str) -> None:
        """Add a manifest, in a snapshot with all manifests so far."""
        before = [f"m{n}.avro" for n in range(int(name[1]))]
        paths = [table.path(f"metadata/{each}") for each in before]
        new = table.manifest(name, *(table.data(file) for file in files))
        table.snapshot(*paths, new)
        self.names.pointers[table.name] = table.commit()

    def mark(self, cache: Marks | None = None) -> Marks:
        return mark(spec_for(self.stores, cache), [self.names])

    def manifests_read(self) -> list[str]:
        return sorted(path for path in self.bucket.reads() if "/metadata/m" in path)


@pytest.fixture
def lake() -> Lake:
    return Lake()


def rows(lake: Lake, marks: Marks, name: str) -> list[tuple[object, ...]]:
    batches = read_dataset(lake.stores, marks.datasets[name])
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=repr)


def test_a_second_run_reads_no_manifest_and_finds_the_same(lake: Lake) -> None:
    first = lake.mark()
    assert len(lake.manifests_read()) == 4
    second = lake.mark(first)
    assert lake.manifests_read() == []
    assert second.figures.reused == second.figures.manifests == 4
    assert second.roots == first.roots
    for name in ("content", "sources", "edges", "problems", "usage"):
        assert rows(lake, second, name) == rows(lake, first, name)


def test_a_run_on_marks_that_were_taken_over_reads_nothing_either(lake: Lake) -> None:
    second = lake.mark(lake.mark())
    lake.bucket.reads()
    third = lake.mark(second)
    assert lake.manifests_read() == []
    assert live(lake.stores, third) == live(lake.stores, lake.mark())


def test_only_new_manifests_are_read(lake: Lake) -> None:
    first = lake.mark()
    lake.grow(lake.tables[0], "m2.avro", "d")
    lake.bucket.reads()
    second = lake.mark(first)
    assert lake.manifests_read() == [lake.tables[0].path("metadata/m2.avro")]
    assert live(lake.stores, second) == live(lake.stores, lake.mark())
    assert rows(lake, second, "content") == rows(lake, lake.mark(), "content")


def test_what_only_expired_snapshots_named_is_not_taken_over(lake: Lake) -> None:
    first = lake.mark()
    table = lake.tables[0]
    table.document["snapshots"] = []
    table.snapshot(table.path("metadata/m1.avro"))
    lake.names.pointers["one"] = table.commit()
    lake.bucket.reads()
    second = lake.mark(first)
    assert lake.manifests_read() == []
    assert (IcebergKind.DATA, table.path("data/a")) not in live(lake.stores, second)
    assert rows(lake, second, "content") == rows(lake, lake.mark(), "content")


def test_a_manifest_of_another_size_is_read_again(lake: Lake) -> None:
    first = lake.mark()
    table = lake.tables[0]
    table.document["snapshots"] = []
    changed = table.manifest("m0.avro", *(table.data(f"other{n}") for n in range(9)))
    table.snapshot(changed)
    lake.names.pointers["one"] = table.commit()
    lake.bucket.reads()
    second = lake.mark(first)
    assert lake.manifests_read() == [changed]
    assert (IcebergKind.DATA, table.path("data/other8")) in live(lake.stores, second)


def test_a_manifest_that_could_not_be_read_is_tried_again(lake: Lake) -> None:
    path = lake.tables[0].path("metadata/m0.avro")
    whole = lake.bucket.read(path)
    lake.bucket.write(path, whole[: len(whole) // 2])
    first = lake.mark()
    assert incomplete(first) == {"one"}
    lake.bucket.write(path, whole)
    lake.bucket.reads()
    second = lake.mark(first)
    assert lake.manifests_read() == [path]
    assert states(second) == dict.fromkeys(("one", "two"), RootState.COMPLETE)


def test_tables_with_relative_paths_share_no_marks(lake: Lake) -> None:
    def draft(name: str) -> Table:
        table = Table(lake.bucket, name, {"format-version": 4})
        table.manifest("m0.avro", table.data("x"))
        table.snapshot("metadata/m0.avro")
        lake.names.pointers[name] = table.commit()
        return table

    one = draft("draft")
    first = lake.mark()
    one.document["location"] = f"{one.location}-moved"
    lake.names.pointers["draft"] = one.commit()
    lake.bucket.write(
        f"{one.location}-moved/metadata/m0.avro", one.bucket.read(one.path("metadata/m0.avro"))
    )
    lake.bucket.reads()
    second = lake.mark(first)
    assert root(second, "draft").state is RootState.COMPLETE
    assert second.figures.reused == 4


@pytest.mark.parametrize("dataset", ["content", "sources", "usage"])
@pytest.mark.parametrize("harm", ["delete", "damage"])
def test_earlier_marks_that_are_not_whole_are_harmless(harm: str, dataset: str, lake: Lake) -> None:
    first = lake.mark()
    for part in first.datasets[dataset].parts:
        place = parse(first.datasets[dataset].address + part.name)
        store = lake.stores.open(place)
        data = store.read(place.key)
        if harm == "delete":
            store.delete([place.key])
        else:
            store.write(place.key, bytes([data[0], data[1] ^ 1, *data[2:]]))
    lake.bucket.reads()
    second = lake.mark(first)
    assert len(lake.manifests_read()) == 4
    assert second.figures.cache_problem is not None
    assert rows(lake, second, "content") == rows(lake, lake.mark(), "content")


def test_earlier_marks_that_lack_rows_are_harmless(lake: Lake) -> None:
    first, small = lake.mark(), Lake()
    small.names.pointers.pop("two")
    fewer = small.mark()
    mixed = Marks(first.address, {**first.datasets, "content": fewer.content}, first.roots)
    lake.bucket.reads()
    second = lake.mark(mixed)
    assert len(lake.manifests_read()) == 4
    assert "files" in (second.figures.cache_problem or "")


def test_links_that_changed_since_are_seen(tmp_path: Path) -> None:
    bucket = Bucket()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    table = Table(bucket, "t")
    table.snapshot(table.manifest("m0.avro", File(f"{link}/x.parquet")))
    names = Names({"t": table.commit()})
    first = mark(spec_for(bucket.stores), [names])
    link.unlink()
    link.symlink_to(tmp_path / "b")
    file_identity._real_folder.cache_clear()  # as in the next process
    second = mark(spec_for(bucket.stores, first), [names])
    assert second.figures.reused == 1
    for batch in read_dataset(bucket.stores, second.content):
        assert [h.tolist() for h in hashes_of(batch)] == [
            h.tolist() for h in file_hashes(batch["path"])
        ]


def test_marks_in_another_store_are_taken_over(lake: Lake, tmp_path: Path) -> None:
    first = lake.mark()
    spec = spec_for(lake.stores, first)
    second = mark(replace(spec, address=f"{tmp_path}/marks"), [lake.names])
    assert rows(lake, second, "content") == rows(lake, first, "content")
