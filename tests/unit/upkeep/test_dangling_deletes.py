"""Which delete files apply to nothing: by partition, for the whole table, and for single files."""

from __future__ import annotations

from typing import Any

import pytest

from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import (
    EntryStatus,
    FileFacts,
    Manifest,
    ManifestEntry,
    ManifestForm,
)
from lakesweep.upkeep.dangling_deletes import LiveFiles, referenced_files

DATA, POSITION, EQUALITY = 0, 1, 2
#: Spec 0 has no partitions, spec 1 has one field.
FILES = [
    (0, (), "s3://b/whole", 3),
    (1, ("x",), "s3://b/x", 5),
    (1, (None,), "s3://b/null", 7),
    (1, (float("nan"),), "s3://b/nan", 7),
]


def entry(
    content: int, path: str, partition: tuple[Any, ...], sequence: int, **facts: Any
) -> ManifestEntry:
    file = FileFacts(content, path, facts.pop("format", "parquet"), partition, 1, 1, **facts)
    return ManifestEntry(EntryStatus.ADDED, 1, sequence, sequence, b"", file, {})


def manifest(spec: int, content: int, *entries: ManifestEntry) -> Manifest:
    form = ManifestForm("{}", {}, "null", spec, content)
    return Manifest({lists.PATH: "m"}, form, entries)


CASES = [
    # An equality delete of a spec without partitions reaches every file of the table.
    (0, entry(EQUALITY, "d", (), 3), True),
    (0, entry(EQUALITY, "d", (), 4), False),
    (1, entry(EQUALITY, "d", ("x",), 5), True),
    (1, entry(EQUALITY, "d", ("x",), 6), False),
    (1, entry(EQUALITY, "d", ("y",), 9), True),
    (1, entry(EQUALITY, "d", (None,), 8), False),
    (1, entry(EQUALITY, "d", (float("nan"),), 8), False),
    # Position deletes apply to files of their own snapshot, too, and only in their own spec.
    (0, entry(POSITION, "d", (), 2), True),
    (0, entry(POSITION, "d", (), 3), False),
    (1, entry(POSITION, "d", ("x",), 4), True),
    (1, entry(POSITION, "d", ("x",), 5), False),
    (1, entry(POSITION, "d", ("y",), 9), True),
    (1, entry(POSITION, "d", ("x",), 5, referenced="s3a://b/x"), False),
    (1, entry(POSITION, "d", ("x",), 4, referenced="s3://b/x"), True),
    (1, entry(POSITION, "d", ("x",), 9, referenced="s3://b/gone"), True),
    (1, entry(POSITION, "d", ("x",), 5, referenced="s3://b/x", format="PUFFIN"), False),
    (1, entry(POSITION, "d", ("x",), 9, referenced="s3://b/gone", format="PUFFIN"), True),
]


@pytest.mark.parametrize(("spec", "delete", "dangles"), CASES)
def test_a_delete_dangles_if_it_can_hide_no_row(
    spec: int, delete: ManifestEntry, dangles: bool
) -> None:
    live = LiveFiles({0}, referenced_files([manifest(spec, 1, delete)]))
    for each, partition, path, sequence in FILES:
        live.add(manifest(each, 0, entry(DATA, path, partition, sequence)))
    assert live.is_dangling(spec, delete) is dangles


def test_a_deletion_vector_takes_the_place_of_position_deletes() -> None:
    vector = entry(POSITION, "v", ("x",), 9, referenced="s3://b/x", format="PUFFIN")
    old = entry(POSITION, "p", ("x",), 8, referenced="s3://b/x")
    live = LiveFiles({0}, referenced_files([manifest(1, 1, vector, old)]))
    live.add(manifest(1, 0, entry(DATA, "s3://b/x", ("x",), 5)))
    assert live.is_dangling(1, old)
    assert not live.is_dangling(1, vector)


def test_a_table_without_data_needs_no_deletes() -> None:
    live = LiveFiles({0}, referenced_files([]))
    assert live.is_dangling(0, entry(EQUALITY, "d", (), 9))
    assert live.is_dangling(0, entry(POSITION, "d", (), 9))
