from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lakesweep.errors import (
    DeniedError,
    InexactKeyError,
    MissingError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.contract import pages_of
from lakesweep.storage.local import listing
from lakesweep.storage.local.store import TEMPORARY_PREFIX, LocalStore
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.stores import Stores

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Take from this thread the rights of the superuser, should it have them."""
    libc = ctypes.CDLL(None)
    libc.setfsuid(NOBODY)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may read, unlike those of pytest."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in folder.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o755)


def put(folder: Path, *keys: str) -> None:
    for key in keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_text(key)


def keys_of(store: LocalStore, prefix: str = "") -> list[str]:
    pages = pages_of(store, prefix)
    return sorted(key for page in pages for key in page.entries.column("key").to_pylist())


def test_a_bucket_can_be_mapped_onto_a_folder(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), base="s3://lake/")
    put(tmp_path, "t/a")
    assert keys_of(store) == ["t/a"]
    with pytest.raises(MissingError, match=r"^s3://lake/t/b: "):
        store.read("t/b")


def test_the_whole_file_system_is_the_default(tmp_path: Path) -> None:
    put(tmp_path, "t/a")
    store = LocalStore()
    assert (store.base, keys_of(store, f"{tmp_path}/"[1:])) == ("/", [f"{tmp_path}/t/a"[1:]])


def test_sizes_and_times_come_exactly(tmp_path: Path) -> None:
    put(tmp_path, "a")
    os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_456_789))
    (row,) = LocalStore(str(tmp_path)).list("").entries.to_pylist()
    assert row["size_bytes"] == 1
    assert row["modified"] == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert LocalStore(str(tmp_path)).head("a").modified == row["modified"]


def test_pages_gather_many_folders_and_cut_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 4)
    keys = [f"small{n}/a" for n in range(6)] + [f"large/{n}" for n in range(9)]
    put(tmp_path, *keys)
    store = LocalStore(str(tmp_path))
    assert [page.entries.num_rows for page in pages_of(store, "")] == [4, 4, 4, 3]
    assert keys_of(store) == sorted(keys)


def test_links_fill_pages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 2)
    put(tmp_path, "target")
    for number in range(4):
        (tmp_path / f"link{number}").symlink_to("target")
    pages = pages_of(LocalStore(str(tmp_path)), "")
    assert [page.entries.num_rows for page in pages] == [2, 2, 1]


def test_what_vanishes_during_a_listing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 2)
    put(tmp_path, *(f"files/{n}" for n in range(6)), "gone/a", "later/b")
    store = LocalStore(str(tmp_path))
    page = store.list("")
    listed = page.entries.column("key").to_pylist()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.unlink()
    (tmp_path / "gone").rmdir()
    (tmp_path / "later").rmdir()
    while page.next is not None:
        page = store.list("", cursor=page.next)
        listed += page.entries.column("key").to_pylist()
    assert len(listed) == 2


def test_a_listing_that_nobody_finishes_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 1)
    put(tmp_path, "a", "b", "c")
    before = len(list(Path("/proc/self/fd").iterdir()))
    page = LocalStore(str(tmp_path)).list("")
    assert page.next is not None
    del page
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_link_to_a_file_is_one_object(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/target")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/link").symlink_to(tmp_path / "elsewhere/target")
    os.utime(tmp_path / "elsewhere/target", (1, 1))
    store = LocalStore(str(tmp_path / "lake"))
    (row,) = store.list("").entries.to_pylist()
    assert (row["key"], row["size_bytes"]) == ("link", len("elsewhere/target"))
    link_time = os.lstat(tmp_path / "lake/link").st_mtime_ns // 1000
    assert row["modified"] == store.head("link").modified
    assert row["modified"].timestamp() == pytest.approx(link_time / 1e6)
    assert store.read("link") == b"elsewhere/target"


def test_deleting_or_replacing_a_link_spares_its_target(tmp_path: Path) -> None:
    put(tmp_path, "target")
    store = LocalStore(str(tmp_path))
    for act in (lambda: store.delete(["link"]), lambda: store.write("link", b"new")):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to("target")
        act()
        assert not (tmp_path / "link").is_symlink()
        assert store.read("target") == b"target"


def test_a_listing_never_leaves_its_folder(tmp_path: Path) -> None:
    put(tmp_path, "outside/a", "lake/b")
    (tmp_path / "lake/link").symlink_to(tmp_path / "outside", target_is_directory=True)
    (tmp_path / "lake/loop").symlink_to(tmp_path / "lake", target_is_directory=True)
    store = LocalStore(str(tmp_path / "lake"))
    assert keys_of(store) == ["b"]
    assert store.list("", one_level=True).folders == ()


def test_what_is_no_file_is_no_object(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "through").symlink_to("pipe/below")
    (tmp_path / "folder").mkdir()
    store = LocalStore(str(tmp_path))
    assert keys_of(store) == []
    for key in ("pipe", "dangling", "loop", "through", "folder", "loop/below"):
        for call in (store.read, store.head):
            with pytest.raises(MissingError):
                call(key)


def test_a_name_that_is_no_text_stops_the_listing(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))).touch()
    with pytest.raises(InexactKeyError, match=r"caf\\xe9: the file name is not valid UTF-8"):
        LocalStore(str(tmp_path)).list("")


@pytest.mark.parametrize("inner", ["", "inner/"])
def test_a_folder_that_may_not_be_read_stops_the_listing(open_folder: Path, inner: str) -> None:
    put(open_folder, f"{inner}secret/a", "open/b")
    (open_folder / f"{inner}secret").chmod(0o000)
    store = LocalStore(str(open_folder), base="s3://lake/")
    with as_nobody(), pytest.raises(DeniedError, match=f"^s3://lake/{inner}secret/: "):
        list(pages_of(store, ""))


def test_a_folder_whose_files_may_not_be_measured_stops_the_listing(open_folder: Path) -> None:
    put(open_folder, "names/a")
    (open_folder / "names").chmod(0o744)
    store = LocalStore(str(open_folder), base="s3://lake/")
    with as_nobody(), pytest.raises(DeniedError, match=r"^s3://lake/names/: "):
        list(pages_of(store, ""))


def test_a_listing_that_failed_cannot_go_on(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 1)
    put(open_folder, "a", "secret/b")
    (open_folder / "secret").chmod(0o000)
    store = LocalStore(str(open_folder))
    with as_nobody():
        cursor = store.list("").next
        for _ in range(2):
            with pytest.raises(DeniedError):
                store.list("", cursor=cursor)


def test_a_delete_that_is_not_allowed_is_denied(open_folder: Path) -> None:
    put(open_folder, "a")
    with as_nobody():
        (deletion,) = LocalStore(str(open_folder)).delete(["a"])
    assert (deletion.outcome, deletion.reason) == (Outcome.DENIED, "Permission denied")
    assert (open_folder / "a").exists()


def test_a_write_that_is_not_allowed_is_denied(open_folder: Path) -> None:
    with as_nobody(), pytest.raises(DeniedError):
        LocalStore(str(open_folder)).write("a", b"")


def test_a_move_that_is_not_allowed_is_denied(open_folder: Path) -> None:
    put(open_folder, "a")
    with as_nobody(), pytest.raises(DeniedError):
        LocalStore(str(open_folder)).move("a", "b")
    assert (open_folder / "a").exists()


def test_folders_are_never_deleted(tmp_path: Path) -> None:
    put(tmp_path, "folder/a")
    (tmp_path / "empty").mkdir()
    outcomes = LocalStore(str(tmp_path)).delete(["folder", "empty", "folder/a/b", "folder/a"])
    assert [(o.outcome, o.reason) for o in outcomes] == [
        (Outcome.FAILED, "Is a directory"),
        (Outcome.FAILED, "Is a directory"),
        (Outcome.ABSENT, None),
        (Outcome.DELETED, None),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "folder"]


@pytest.mark.parametrize("key", ["", "..", "a/../b", "nul\0", "surrogate\udcff", "a/", "/a"])
def test_a_key_that_would_name_another_file_is_refused(tmp_path: Path, key: str) -> None:
    put(tmp_path, "a/b", "b")
    store = LocalStore(str(tmp_path))
    with pytest.raises(InexactKeyError):
        store.write(key, b"")
    assert store.delete([key])[0].outcome is Outcome.FAILED
    assert keys_of(store) == ["a/b", "b"]


@pytest.mark.parametrize("prefix", ["../", "a//", "./"])
def test_a_prefix_that_would_name_another_folder_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InexactKeyError):
        LocalStore(str(tmp_path)).list(prefix)


@pytest.mark.parametrize("key", ["folder", "file/below", "file/far/below"])
def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, key: str) -> None:
    put(tmp_path, "folder/a", "file")
    store = LocalStore(str(tmp_path))
    for write in (store.write, store.write_new):
        with pytest.raises(StorageError):
            write(key, b"data")
    assert keys_of(store) == ["file", "folder/a"]


def test_written_files_follow_the_mask_of_the_process(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        LocalStore(str(tmp_path)).write("a", b"")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_temporary_files_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    replace = os.replace

    def look(source: str, target: str, **folders: int) -> None:
        seen.append(source)
        replace(source, target, **folders)

    monkeypatch.setattr(os, "replace", look)
    LocalStore(str(tmp_path)).write("folder/a", b"")
    assert [name.startswith(TEMPORARY_PREFIX) for name in seen] == [True]


@pytest.mark.parametrize("verb", ["write", "write_new", "copy"])
def test_a_write_that_is_killed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Right before the content is synced, the folder has no new name yet."""
    store, seen = LocalStore(str(tmp_path)), []
    (tmp_path / "source").write_bytes(b"x")

    def look(descriptor: int) -> None:
        del descriptor
        seen.append(sorted(path.name for path in tmp_path.iterdir()))

    monkeypatch.setattr(os, "fsync", look)
    match verb:
        case "copy":
            store.copy("source", "a")
        case "write":
            store.write("a", b"x")
        case _:
            store.write_new("a", b"x")
    assert seen[0] == ["source"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "source"]
    assert (tmp_path / "a").read_bytes() == b"x"


@pytest.mark.parametrize("broken", ["open", "link"])
def test_a_system_without_unnamed_files_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    really = getattr(os, broken)

    def refuse(path: str, *given: Any, **named: Any) -> Any:
        if broken == "link" or given[0] & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported", path)
        return really(path, *given, **named)

    monkeypatch.setattr(os, broken, refuse)
    store = LocalStore(str(tmp_path))
    store.write("folder/a", b"one")
    store.write("folder/a", b"another")
    assert store.read("folder/a") == b"another"
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a"]


def test_a_file_system_without_links_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str, **_: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", source, None, target)

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStore(str(tmp_path))
    with pytest.raises(UnsupportedError, match="needs hard links"):
        store.write_new("a", b"")
    assert keys_of(store) == []


def test_a_passing_error_of_the_system_may_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(UnavailableError, match="Stale file handle"):
        LocalStore(str(tmp_path)).read("a")


def test_a_cursor_of_another_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        LocalStore(str(tmp_path)).list("", cursor="token")


@pytest.mark.parametrize("key", ["lake/_lakesweep/plans/p/part", ".lakesweep/plans/p", "own/p/q"])
def test_own_files_are_for_their_owner_alone(tmp_path: Path, key: str) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    store = Stores().within(str(tmp_path), private=[f"{tmp_path}/own"]).open("/")
    mask = os.umask(0)
    try:
        store.write(f"{tmp_path}/{key}"[1:], b"")
    finally:
        os.umask(mask)
    path = tmp_path / key
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    # A folder that somebody made before keeps its rights.
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o755
