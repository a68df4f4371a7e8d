from __future__ import annotations

import os
from pathlib import Path
from struct import pack

import pytest

from lakesweep.config.search import find_config, is_closed

_NAME = "lakesweep.toml"
_STRANGER = 54_321


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """A folder that no one else can write to, in another one."""
    tmp_path.chmod(0o755)
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True, mode=0o755)
    folder.parent.chmod(0o755)
    return folder


def _write(folder: Path, mode: int = 0o644) -> Path:
    file = folder / _NAME
    file.touch()
    file.chmod(mode)
    return file


def test_the_named_file_comes_first_then_the_environment_then_the_folders(inner: Path) -> None:
    near = _write(inner.parent)
    environment = {"LAKESWEEP_CONFIG": "env.toml"}
    assert find_config(Path("given.toml"), environment, inner).path == Path("given.toml")
    assert find_config(None, environment, inner).path == Path("env.toml")
    assert find_config(None, {}, inner).path == near


def test_the_nearest_folder_wins(inner: Path) -> None:
    _write(inner.parent)
    near = _write(inner)
    assert find_config(None, {"LAKESWEEP_CONFIG": ""}, inner).path == near


@pytest.mark.parametrize(
    ("mode", "why"), [(0o666, "it can be written to by everyone"), (0o602, "everyone")]
)
def test_a_file_that_others_can_write_is_passed_over(inner: Path, mode: int, why: str) -> None:
    far, near = _write(inner.parent), _write(inner, mode)
    search = find_config(None, {}, inner)
    assert search.path == far
    assert [each.path for each in search.passed_over] == [near]
    assert why in search.passed_over[0].reason
    assert f"--config {near}" in str(search.passed_over[0])


def test_a_file_of_another_user_is_passed_over(inner: Path) -> None:
    inner.chmod(0o1777)  # sticky, so that the folder itself is no reason
    theirs = _write(inner)
    search = find_config(None, {}, inner, owners={_STRANGER})
    assert search.path is None
    assert search.passed_over[0].path == theirs
    assert "belongs to the user" in search.passed_over[0].reason


def test_a_folder_that_everyone_can_write_to_ends_the_search(inner: Path) -> None:
    within, above = _write(inner.parent), _write(inner.parent.parent)
    inner.parent.chmod(0o777)
    search = find_config(None, {}, inner)
    assert search.path is None
    assert [each.path for each in search.passed_over][:2] == [within, above]
    assert {each.reason for each in search.passed_over[:2]} == {
        f"{inner.parent} can be written to by everyone"
    }


def test_a_folder_with_a_list_of_other_users_who_can_write_ends_the_search(inner: Path) -> None:
    _write(inner)
    os.setxattr(inner, "system.posix_acl_access", _acl_for(_STRANGER))
    assert "by the group" in find_config(None, {}, inner).passed_over[0].reason


def _acl_for(user: int) -> bytes:
    """The access control list of Linux: owner, this user, group, mask, others."""
    nobody = 2**32 - 1
    entries = [(1, 7, nobody), (2, 7, user), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    return pack("<I", 2) + b"".join(pack("<HHI", *entry) for entry in entries)


def test_our_own_file_in_a_sticky_folder_is_used(inner: Path) -> None:
    inner.parent.chmod(0o1777)
    file = _write(inner.parent)
    assert find_config(None, {}, inner).path == file


def test_a_link_counts_by_the_folder_that_it_leads_to(inner: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "other.toml").touch(mode=0o644)
    (inner / _NAME).symlink_to(folder / "other.toml")
    assert find_config(None, {}, inner).path == inner / _NAME
    folder.chmod(0o777)
    assert f"{folder} can be" in find_config(None, {}, inner).passed_over[0].reason


def test_a_folder_is_closed_if_no_other_user_can_replace_it(inner: Path, tmp_path: Path) -> None:
    assert is_closed(inner)
    assert not is_closed(inner, owners=())
    link = tmp_path / "link"
    link.symlink_to(inner)
    inner.parent.chmod(0o777)
    assert not is_closed(inner)
    assert not is_closed(link)


def test_a_search_without_success_says_where_it_looked(inner: Path) -> None:
    search = find_config(None, {}, inner)
    assert search.path is None
    assert search.places.startswith(f"{_NAME} in {inner} and its parents up to /")
