from __future__ import annotations

import os
import pickle
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.sweep.paths.folder_map import FolderMap, FolderOverlap, claimed_folder


def owners(folders: dict[str, str], *paths: str) -> list[str | None]:
    found = FolderMap(folders.items())
    answer: list[str | None] = found.labels(found.find(pa.array(paths, pa.string()))).to_pylist()
    return answer


class TestFind:
    def test_gives_the_innermost_folder(self) -> None:
        folders = {"s3://b/a/": "outer", "s3://b/a/data/inner/": "inner"}
        paths = ("s3://b/a/data/f", "s3://b/a/data/inner/f", "s3://b/a/data/inner/x/y", "s3://b/f")
        assert owners(folders, *paths) == ["outer", "inner", "inner", None]

    def test_does_not_take_t1_for_t10(self) -> None:
        folders = {"s3://b/t1/": "t1", "s3://b/t10/": "t10"}
        paths = ("s3://b/t1/f", "s3://b/t10/f", "s3://b/t100/f", "s3://b/t1_backup/f", "s3://b/t1")
        assert owners(folders, *paths) == ["t1", "t10", None, None, None]

    def test_takes_a_bucket_as_a_folder(self) -> None:
        folders = {"s3://b/": "bucket", "/": "disk"}
        assert owners(folders, "s3://b/f", "s3://b2/f", "/f", "s3://b") == [
            "bucket", None, "disk", None,
        ]  # fmt: skip

    def test_keeps_empty_names_apart(self) -> None:
        folders = {"s3://b/a/": "one", "s3://b/a//": "two"}
        paths = ("s3://b/a/f", "s3://b/a//f", "s3://b/a///f", "s3://b//a/f")
        assert owners(folders, *paths) == ["one", "two", "two", None]

    def test_keeps_normal_forms_apart(self) -> None:
        composed, decomposed = (unicodedata.normalize(form, "žluť") for form in ("NFC", "NFD"))
        folders = {f"s3://b/{composed}/": "composed"}
        assert owners(folders, f"s3://b/{composed}/f", f"s3://b/{decomposed}/f") == [
            "composed", None,
        ]  # fmt: skip

    def test_keeps_escapes_and_case_apart(self) -> None:
        paths = ("s3://b/p=x+y/f", "s3://b/p=x y/f", "s3://b/p=x%20y/f", "s3://b/P=x+y/f")
        assert owners({"s3://b/p=x+y/": "it"}, *paths) == ["it", None, None, None]

    def test_sees_a_marker_of_the_folder_inside_it(self) -> None:
        assert owners({"s3://b/t/": "t"}, "s3://b/t/") == ["t"]

    def test_of_nothing_is_nothing(self) -> None:
        assert owners({}, "s3://b/f") == [None]
        assert owners({"s3://b/": "b"}) == []

    def test_reads_slices_and_large_strings(self) -> None:
        found = FolderMap([("s3://b/t/", "t")])
        paths = pa.array(["x", "s3://b/t/f", "y"])
        assert found.find(paths.slice(1, 1)).tolist() == [0]
        assert found.find(paths.cast(pa.large_string())).tolist() == [-1, 0, -1]

    def test_survives_being_sent_elsewhere(self) -> None:
        found = pickle.loads(pickle.dumps(FolderMap([("s3://b/t/", "t")])))
        assert found.labels(found.find(pa.array(["s3://b/t/f"]))).to_pylist() == ["t"]

    def test_knows_the_sizes_of_folders_in_bytes(self) -> None:
        assert FolderMap([("s3://b/ž/", "t")]).sizes.tolist() == [10]


class TestFindWithSelf:
    def test_takes_a_file_named_like_the_folder(self) -> None:
        pins = FolderMap([("s3://b/keep.txt/", "it")])
        paths = pa.array(["s3://b/keep.txt", "s3://b/keep.txt/x", "s3://b/keep.txt2", "s3://b/"])
        assert pins.find_with_self(paths).tolist() == [0, 0, -1, -1]

    def test_of_nothing_is_nothing(self) -> None:
        assert FolderMap().find_with_self(pa.array(["s3://b/f"])).tolist() == [-1]


def test_a_folder_without_a_slash_at_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="slash"):
        FolderMap([("s3://b/t1", "t1")])


class TestOverlaps:
    def test_are_folders_of_several_owners(self) -> None:
        found = FolderMap([("s3://b/t/", "two"), ("s3://b/t/", "one"), ("s3://b/u/", "three")])
        assert list(found.overlaps()) == [FolderOverlap("s3://b/t/", ("one", "two"))]

    def test_are_folders_inside_those_of_others(self) -> None:
        found = FolderMap([("s3://b/t/", "out"), ("s3://b/t/data/in/", "in"), ("s3://b/t1/", "no")])
        [overlap] = found.overlaps()
        assert (overlap.folder, overlap.names) == ("s3://b/t/data/in/", ("in",))
        assert (overlap.outer, overlap.outer_names) == ("s3://b/t/", ("out",))

    def test_are_not_folders_inside_those_of_the_same_owner(self) -> None:
        found = FolderMap([("s3://b/t/", "t"), ("s3://b/t/data/", "t"), ("s3://b/t/meta/", "t")])
        assert list(found.overlaps()) == []

    def test_do_not_grow_with_the_square_of_owners(self) -> None:
        nested = [("s3://b/" + "x/" * depth, f"t{depth}") for depth in range(100)]
        shared = [("s3://c/", f"t{number}") for number in range(100)]
        assert len(list(FolderMap(nested + shared).overlaps())) == 99 + 1


class TestClaimedFolder:
    @pytest.mark.parametrize(
        ("written", "folder"),
        [
            ("s3://b/t", "s3://b/t/"),
            ("s3a://b/t/", "s3://b/t/"),
            ("s3://b/t//", "s3://b/t/"),
            ("s3://b", "s3://b/"),
            ("s3n://b//", "s3://b/"),
            ("s3://b/a//t", "s3://b/a//t/"),
            ("/", "/"),
            ("file:///", "/"),
        ],
    )
    def test_is_the_widest_that_can_be_meant(self, written: str, folder: str) -> None:
        assert claimed_folder(written) == folder

    def test_is_where_links_lead(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        real = os.path.realpath(tmp_path)
        assert claimed_folder(f"{tmp_path}/link/t") == f"{real}/real/t/"
        assert claimed_folder(f"file://{tmp_path}/link/") == f"{real}/real/"
