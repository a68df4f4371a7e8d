from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.storage.file_identity import (
    _folders,
    file_hashes,
    link_targets,
    resolve_alias,
    resolve_aliases,
)


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Addresses of many kinds, some of them other names of others."""
    folder = tmp_path.resolve() / "real"
    folder.mkdir()
    link = tmp_path.resolve() / "link"
    link.symlink_to(folder)
    return [
        f"{folder}/a",
        f"{folder}/b",
        f"{link}/a",
        f"{folder}//a",
        f"{folder}/../real/a",
        f"{folder}/",
        f"{link}/",
        "/a",
        "/",
        "s3://lake/a//b",
        f"{folder}/\u017e",
        "gone/nowhere",
    ]


def test_a_column_is_resolved_as_its_values_are(names: list[str]) -> None:
    expected = [resolve_alias(name) for name in names]
    assert resolve_aliases(pa.array(names)).to_pylist() == expected
    assert resolve_aliases(pa.chunked_array([names[:3], [], names[3:]])).to_pylist() == expected


def test_every_part_of_a_column_is_resolved_as_the_whole(names: list[str]) -> None:
    whole = resolve_aliases(pa.array(names)).to_pylist()
    for start in range(len(names)):
        assert resolve_aliases(pa.array(names)[start:]).to_pylist() == whole[start:]


def test_a_column_without_links_is_given_back_as_it_is(tmp_path: Path) -> None:
    names = pa.array([f"{tmp_path.resolve()}/{n}" for n in "ab"])
    assert resolve_aliases(names) is names


def test_all_names_of_one_file_have_one_hash(names: list[str]) -> None:
    low, high = file_hashes(pa.array(names))
    assert len({(low[i], high[i]) for i in (0, 2, 3, 4)}) == 1
    assert low[1] != low[0]


def test_all_spellings_of_one_store_have_one_hash() -> None:
    low, _ = file_hashes(pa.array(["s3://b/k", "s3a://b/k", "S3N://b/k", "s3://b//k"]))
    assert low[0] == low[1] == low[2] != low[3]


def test_links_lead_to_the_files_behind_them(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "file").touch()
    (folder / "link").symlink_to(folder / "file")
    (folder / "second").symlink_to(folder / "link")
    paths = pa.array([f"{folder}/{name}" for name in ("file", "link", "second", "gone")])
    assert link_targets(paths).to_pylist() == [f"{folder}/file"] * 2


def test_a_column_has_each_of_its_folders_once() -> None:
    folders = [f"/{number % 7}/{number}/" for number in range(5_000)]
    paths = pa.array([f"{folder}{name}" for name in "abc" for folder in folders])
    assert list(_folders(paths)) == folders
