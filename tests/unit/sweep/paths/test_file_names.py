from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.sweep.paths.file_names import FileNames, is_hidden

LOCATION = "s3://lake/_own/"
UUID = "5c2f9b1e-0a1b-4c2d-8e3f-0123456789ab"


def in_table(path: str) -> bool:
    """Whether a path in a table that has partitions by `_x` is hidden."""
    return is_hidden(f"{LOCATION}t/{path}", len(LOCATION), len(f"{LOCATION}t/"), {"_x"})


def hidden(*paths: str) -> list[bool]:
    starts = np.full(len(paths), len(LOCATION.encode()))
    names = FileNames(pa.array([LOCATION + path for path in paths]))
    answer: list[bool] = names.hidden(starts).tolist()
    return answer


def families(*paths: str) -> list[str | None]:
    answer: list[str | None] = FileNames(pa.array(paths)).families().to_pylist()
    return answer


class TestFamilies:
    @pytest.mark.parametrize(
        "name",
        [
            f"dt=1/bucket-0/data-{UUID}-0.parquet",
            f"bucket-postpone/changelog-{UUID}-12.zstd.orc",
            f"bucket-3/1010/0011/data-{UUID}-0.avro",
            f"bucket-0/data-{UUID}-0.managed.blob",
            f"manifest/manifest-{UUID}-0",
            f"manifest/manifest-list-{UUID}-1",
            f"manifest/index-manifest-{UUID}-0",
            "snapshot/snapshot-12",
            "snapshot/LATEST",
            "changelog/EARLIEST",
            "schema/schema-0",
            f"index/index-{UUID}-0",
            f"statistics/stat-{UUID}-0",
            "tag/tag-daily",
            "branch/branch-x/snapshot/snapshot-1",
        ],
    )
    def test_know_files_of_paimon(self, name: str) -> None:
        assert families(f"s3://b/db.db/t/{name}") == ["paimon"]

    def test_know_files_of_lakefs(self) -> None:
        paths = ("s3://b/repo/_lakefs/retention/gc/x", "s3://b/repo/x_lakefs/y")
        assert families(*paths) == ["lakefs", None]

    @pytest.mark.parametrize(
        "name",
        [
            f"data/00000-1-{UUID}-00001.parquet",
            f"metadata/{UUID}-m0.avro",
            "metadata/v3.metadata.json",
            f"data/data-{UUID}-0.parquet",
            "data/bucket-0/part-0.parquet",
            "snapshot/snapshot-x",
            "schema/readme",
        ],
    )
    def test_leave_other_files_alone(self, name: str) -> None:
        assert families(f"s3://b/t/{name}") == [None]


class TestTemporary:
    @pytest.mark.parametrize(
        "name",
        [
            "data/_temporary/0/part-0.parquet",
            "data/_SUCCESS",
            "data/.part-0.parquet.crc",
            "metadata/copy-table-staging-5c2f/file-list",
            "data/.spark-staging-1/x",
            "x.tmp",
            "part-0.inprogress",
            "data/.lakesweep-tmp-12",
        ],
    )
    def test_names_are_known(self, name: str) -> None:
        assert FileNames(pa.array([f"s3://b/t/{name}"])).temporary().tolist() == [True]

    @pytest.mark.parametrize("name", ["data/x.parquet", "tmp/x.parquet", "SUCCESS", "x.tmp/y"])
    def test_names_are_not_guessed(self, name: str) -> None:
        assert FileNames(pa.array([f"s3://b/t/{name}"])).temporary().tolist() == [False]


class TestHidden:
    def test_are_names_that_begin_with_a_dot_or_an_underscore(self) -> None:
        assert hidden(".x", "_x", "a/.x", "a/_x/b", ".a/b", "a/b/_") == [True] * 6

    def test_are_no_other_names(self) -> None:
        assert hidden("x", "a.b/c_d", "x._", "a//b", "") == [False] * 5

    def test_are_not_names_of_the_location_itself(self) -> None:
        assert LOCATION.count("_") == 1
        assert hidden("data/x.parquet") == [False]

    def test_are_not_partitions_of_the_table(self) -> None:
        names = ("_x=2/f.parquet", "a/_x=/b=1/f.parquet", "_x=1/_x=2/f.parquet")
        assert [in_table(name) for name in names] == [False] * 3

    def test_are_other_folders_of_the_table_and_files(self) -> None:
        names = ("_y=2/f", "_x/f", "_x=1/_f", "_x=1/.a/f", "_x=1", "_xx=1/f", "._x=1/f")
        assert [in_table(name) for name in names] == [True] * 7

    def test_are_partitions_of_a_table_that_lies_in_such_a_folder(self) -> None:
        assert is_hidden("s3://b/_x=1/t/f", len("s3://b/"), len("s3://b/_x=1/t/"), {"_x"})

    def test_are_found_by_bytes_behind_other_letters(self) -> None:
        folder = "s3://lake/ž/"
        paths = pa.array([folder + "_x", folder + "x"])
        starts = np.full(2, len(folder.encode()))
        assert FileNames(paths).hidden(starts).tolist() == [True, False]
        assert is_hidden(folder + "ž/_y=1/_x", starts[0], starts[0] + 3, {"_y"})
        assert not is_hidden(folder + "ž/_y=1/x", starts[0], starts[0] + 3, {"_y"})
