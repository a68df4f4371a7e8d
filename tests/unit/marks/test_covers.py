from __future__ import annotations

import pyarrow as pa

from lakesweep.marks.covers import collapse, cover


def covered(*paths: str) -> set[str]:
    sizes = pa.nulls(len(paths), pa.int64())
    (found,) = cover(pa.array(paths, pa.string()), sizes, [0, len(paths)])
    return set(found)


def test_one_file_is_covered_by_its_folder() -> None:
    assert covered("s3://b/t/data/a") == {"s3://b/t/data/"}


def test_many_partitions_are_covered_by_the_folder_around_them() -> None:
    assert covered(*(f"s3://b/t/data/day={n}/a" for n in range(9))) == {"s3://b/t/data/"}


def test_few_folders_stay_apart() -> None:
    found = covered("s3://b/t1/data/p=1/a", "s3://b/t2/data/a", "s3a://b/t1/data/p=2/b")
    assert found == {"s3://b/t1/data/", "s3://b/t2/data/"}


def test_names_that_begin_alike_are_not_one_folder() -> None:
    assert covered("s3://b/t1/a", "s3://b/t10/a") == {"s3://b/t1/", "s3://b/t10/"}


def test_a_file_beside_folders_is_covered_by_the_folder_around_them() -> None:
    assert covered("s3://b/t/a", "s3://b/t/x/b") == {"s3://b/t/"}


def test_files_all_over_a_bucket_are_covered_by_the_bucket() -> None:
    assert covered(*(f"s3://b/{n}/a" for n in range(20))) == {"s3://b/"}


def test_no_folder_spans_two_buckets() -> None:
    assert covered(*(f"s3://b{n}/t/a" for n in range(20))) == {f"s3://b{n}/" for n in range(20)}


def test_nothing_is_covered_by_nothing() -> None:
    assert covered() == set()
    assert collapse((), 3) == ()


def test_folders_collapse_no_further_than_they_must() -> None:
    folders = [f"s3://b/t/day={day}/hour={hour}/" for day in range(3) for hour in range(3)]
    assert collapse(folders, 9) == tuple(folders)
    assert collapse(folders, 8) == tuple(f"s3://b/t/day={day}/" for day in range(3))
    assert collapse([*folders, "s3://c/"], 1) == ("s3://b/", "s3://c/")


def test_folders_that_are_shallow_already_stay_as_they_are() -> None:
    folders = ["/a/", "/b/x/y/", "/b/x/z/", "/c/x/y/"]
    assert collapse(folders, 3) == ("/a/", "/b/x/", "/c/x/")
