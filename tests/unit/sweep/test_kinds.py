from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.sweep.kinds import Names, hidden_fields

LOCATION = "s3://lake/_own/"
UUID = "5c2f9b1e-0a1b-4c2d-8e3f-0123456789ab"


def hidden(*paths: str, fields: set[str] | None = None) -> list[bool]:
    starts = np.full(len(paths), len(LOCATION.encode()))
    names = Names(pa.array([LOCATION + path for path in paths]))
    answer: list[bool] = names.hidden(starts, fields or set()).tolist()
    return answer


def families(*paths: str) -> list[str | None]:
    answer: list[str | None] = Names(pa.array(paths)).families().to_pylist()
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
        assert Names(pa.array([f"s3://b/t/{name}"])).temporary().tolist() == [True]

    @pytest.mark.parametrize("name", ["data/x.parquet", "tmp/x.parquet", "SUCCESS", "x.tmp/y"])
    def test_names_are_not_guessed(self, name: str) -> None:
        assert Names(pa.array([f"s3://b/t/{name}"])).temporary().tolist() == [False]


class TestHidden:
    def test_are_names_that_begin_with_a_dot_or_an_underscore(self) -> None:
        assert hidden(".x", "_x", "a/.x", "a/_x/b", ".a/b", "a/b/_") == [True] * 6

    def test_are_no_other_names(self) -> None:
        assert hidden("x", "a.b/c_d", "x._", "a//b", "") == [False] * 5

    def test_are_not_names_of_the_location_itself(self) -> None:
        assert LOCATION.count("_") == 1
        assert hidden("data/x.parquet") == [False]

    def test_are_not_partitions_that_hold_live_files(self) -> None:
        fields = hidden_fields(pa.array([LOCATION + "t/_x=1/a=2/f.parquet", "s3://b/plain/f"]))
        paths = ("t/_x=2/f.parquet", "t/_y=2/f.parquet", "u/_x=1/f.parquet", "t/_x/f.parquet")
        assert hidden(*paths, fields=fields) == [False, True, True, True]

    def test_are_files_in_such_partitions_whose_own_name_is_hidden(self) -> None:
        fields = hidden_fields(pa.array([LOCATION + "t/_x=1/f.parquet"]))
        paths = ("t/_x=1/_f.parquet", "t/_x=1/.a/f", "t/_x=1", "_t/_x=1/f")
        assert hidden(*paths, fields=fields) == [True] * 4

    def test_are_found_by_bytes_behind_other_letters(self) -> None:
        folder = "s3://lake/ž/"
        paths = pa.array([folder + "_x", folder + "x"])
        starts = np.full(2, len(folder.encode()))
        for fields in (set(), {"s3://lake/ž/_y="}):
            assert Names(paths).hidden(starts, fields).tolist() == [True, False]


class TestHiddenFields:
    def test_are_told_with_all_that_stands_before_them(self) -> None:
        paths = pa.array(["s3://b/t/_x=1/.y=2/f", "s3://b/t/_x=2/f", "s3://b/t/x=1/f", "/_f=1"])
        assert hidden_fields(paths) == {"s3://b/t/_x=", "s3://b/t/_x=1/.y="}
