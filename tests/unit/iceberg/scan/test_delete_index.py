"""Delete files and the data files that they apply to."""

from __future__ import annotations

from typing import Any

from lakesweep.iceberg.scan.content_files import ContentFile, FileContent
from lakesweep.iceberg.scan.delete_index import DeleteIndex
from lakesweep.iceberg.scan.partitions import PartitionColumn, PartitionLayout

PLAIN = PartitionLayout(0, ())
BY_DAY = PartitionLayout(1, (PartitionColumn(1000, "d", 1, "identity", "int", "int"),))
POSITIONS, EQUALITY = FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES
_PATH_COLUMN = 2147483546


def _file(path: str, sequence: int, content: FileContent = FileContent.DATA, **more: Any) -> Any:
    given = {"format": "parquet", "layout": BY_DAY, "partition": (1,), **more}
    return ContentFile(
        content=content, path=path, records=1, size_bytes=1, sequence=sequence, **given
    )


def _applied(data: ContentFile, *deletes: ContentFile) -> list[str]:
    return [each.path for each in DeleteIndex(deletes).of(data)]


def test_equality_deletes_apply_to_older_data_only() -> None:
    deletes = [_file(f"e{number}", number, EQUALITY) for number in (4, 5, 6)]
    assert _applied(_file("d", 5), *deletes) == ["e6"]


def test_position_deletes_apply_to_data_of_the_same_commit() -> None:
    deletes = [_file(f"p{number}", number, POSITIONS) for number in (4, 5, 6)]
    assert _applied(_file("d", 5), *deletes) == ["p5", "p6"]


def test_partitions_are_kept_apart_unless_a_delete_has_none() -> None:
    deletes = [
        _file("other", 9, POSITIONS, partition=(2,)),
        _file("other spec", 9, POSITIONS, layout=PLAIN, partition=()),
        _file("everywhere", 9, EQUALITY, layout=PLAIN, partition=()),
        _file("null", 9, EQUALITY, partition=(None,)),
    ]
    assert _applied(_file("d", 5), *deletes) == ["everywhere"]


def test_deletes_that_name_their_file_apply_to_it_alone() -> None:
    bounds = {"lower_bounds": {_PATH_COLUMN: b"d"}, "upper_bounds": {_PATH_COLUMN: b"d"}}
    cut = {"lower_bounds": {_PATH_COLUMN: b"d"}, "upper_bounds": {_PATH_COLUMN: b"e"}}
    deletes = [
        _file("named", 9, POSITIONS, referenced="d"),
        _file("another", 9, POSITIONS, referenced="x"),
        _file("bounded", 9, POSITIONS, statistics=bounds),
        _file("ranged", 9, POSITIONS, statistics=cut),
    ]
    assert _applied(_file("d", 5), *deletes) == ["named", "bounded", "ranged"]


def test_a_vector_replaces_position_deletes() -> None:
    deletes = [
        _file("positions", 9, POSITIONS),
        _file("named", 9, POSITIONS, referenced="d"),
        _file("vector", 9, POSITIONS, referenced="d", format="PUFFIN", offset=4, length=9),
        _file("rows", 9, EQUALITY),
    ]
    assert _applied(_file("d", 5), *deletes) == ["rows", "vector"]
    assert _applied(_file("c", 5), *deletes) == ["rows", "positions"]
