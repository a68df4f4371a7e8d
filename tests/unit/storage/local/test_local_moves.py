"""Moves of files: one step where the system has one, and no way to lose or replace a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    LakesweepError,
    MissingError,
    StorageError,
    UnsupportedError,
)
from lakesweep.storage.local import exclusive_rename
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.moves import finish_move
from lakesweep.storage.object_store import Expected, Outcome, expected_of
from tests.processes import scratch_folder


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    found = LocalStore(str(tmp_path))
    found.write("a", b"data")
    return found


@pytest.fixture
def without_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system, or in a file system, that cannot rename without replacing."""
    monkeypatch.setattr(exclusive_rename, "_system_call", lambda: None)


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory: mostly another file system than the one of temporary files."""
    with scratch_folder("moves") as folder:
        yield folder


def test_a_moved_file_is_the_same_file(store: LocalStore, tmp_path: Path) -> None:
    before = (tmp_path / "a").stat()
    store.move("a", "new/folder/b")
    after = (tmp_path / "new/folder/b").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_folder_is_never_moved(store: LocalStore) -> None:
    store.write("folder/inside", b"")
    for expected in (None, Expected(size_bytes=4096)):
        with pytest.raises(MissingError):
            store.move("folder", "elsewhere", expected)
    assert store.read("folder/inside") == b""


def test_a_link_is_moved_and_not_what_it_leads_to(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    store.move("link", "moved/link", expected_of(store.head("link")))
    assert (tmp_path / "moved/link").readlink() == tmp_path / "a"
    assert (tmp_path / "a").is_file()


@pytest.mark.parametrize("target", ["a/below", "a/far/below"])
def test_a_file_where_a_folder_is_needed_stops_a_move(store: LocalStore, target: str) -> None:
    store.write("b", b"")
    with pytest.raises(StorageError, match="a folder is needed"):
        store.move("b", target)
    assert store.read("b") == b""


def test_a_file_of_another_time_is_not_the_one_that_was_listed(
    store: LocalStore, tmp_path: Path
) -> None:
    listed = expected_of(store.head("a"))
    os.utime(tmp_path / "a", ns=(1, 1))
    with pytest.raises(ChangedError):
        store.move("a", "b", listed)
    (deletion,) = store.delete(["a"], [listed])
    assert (deletion.outcome, store.read("a")) == (Outcome.CHANGED, b"data")


def test_times_are_compared_to_the_microsecond(store: LocalStore, tmp_path: Path) -> None:
    os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_456_789))
    (row,) = store.list("").entries.to_pylist()
    listed = Expected(4, 1_700_000_000_123_456)
    assert row["modified"].microsecond == 123_456
    assert store.delete(["a"], [listed])[0].outcome is Outcome.DELETED


def test_a_link_is_compared_as_it_was_listed(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    listed = expected_of(store.head("link"))
    assert store.delete(["link"], [listed])[0].outcome is Outcome.DELETED
    assert store.read("a") == b"data"


def test_a_file_moves_to_another_file_system(
    store: LocalStore, tmp_path: Path, memory_folder: Path
) -> None:
    whole = LocalStore()
    (tmp_path / "a").chmod(0o640)
    os.utime(tmp_path / "a", ns=(5, 7_000_000_001))
    source, target = f"{tmp_path}/a"[1:], f"{memory_folder}/deep/b"[1:]
    whole.move(source, target)
    status = (memory_folder / "deep/b").stat()
    assert (status.st_mtime_ns, status.st_mode & 0o777) == (7_000_000_001, 0o640)
    assert whole.read(target) == b"data"
    assert not (tmp_path / "a").exists()
    assert [path.name for path in (memory_folder / "deep").iterdir()] == ["b"]


def test_no_file_of_another_file_system_is_replaced(
    store: LocalStore, tmp_path: Path, memory_folder: Path
) -> None:
    (memory_folder / "b").write_bytes(b"taken")
    with pytest.raises(ExistsError):
        LocalStore().move(f"{tmp_path}/a"[1:], f"{memory_folder}/b"[1:])
    assert [store.read("a"), (memory_folder / "b").read_bytes()] == [b"data", b"taken"]


@pytest.mark.usefixtures("without_rename")
def test_links_do_where_there_is_no_rename(store: LocalStore, tmp_path: Path) -> None:
    store.move("a", "folder/b")
    assert (store.read("folder/b"), (tmp_path / "a").exists()) == (b"data", False)
    store.write("a", b"other")
    with pytest.raises(ExistsError):
        store.move("a", "folder/b")
    assert [store.read(key) for key in ("a", "folder/b")] == [b"other", b"data"]


@pytest.mark.usefixtures("without_rename")
def test_a_move_by_links_goes_on_after_a_crash(store: LocalStore, tmp_path: Path) -> None:
    os.link(tmp_path / "a", tmp_path / "b")
    store.move("a", "b")
    assert (store.read("b"), (tmp_path / "a").exists()) == (b"data", False)


@pytest.mark.usefixtures("without_rename")
def test_a_file_system_with_neither_says_so(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsupportedError):
        store.move("a", "b")
    assert store.read("a") == b"data"


def test_a_broken_move_is_finished_only_for_a_whole_copy(store: LocalStore) -> None:
    for data in (b"da", b"date", b"data and more"):
        store.write("b", data)
        assert not finish_move(store, "a", "b")
        assert store.read("a") == b"data"
    store.write("b", b"data")
    assert finish_move(store, "a", "b")
    with pytest.raises(MissingError):
        store.head("a")


@pytest.mark.parametrize("key", ["missing", "folder/missing"])
def test_there_is_nothing_to_finish_where_a_file_is_missing(store: LocalStore, key: str) -> None:
    assert not finish_move(store, key, "a")
    assert not finish_move(store, "a", key)
    assert store.read("a") == b"data"


def test_no_versions_are_kept(store: LocalStore) -> None:
    assert not store.keeps_versions()
    with pytest.raises(LakesweepError, match="does not keep versions"):
        store.undelete("a")
