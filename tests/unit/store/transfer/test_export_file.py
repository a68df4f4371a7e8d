from __future__ import annotations

import errno
import gzip
import io
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from lakesweep.errors import MissingError, StorageError, UsageError
from lakesweep.store.transfer.export_file import decompressing, new_file, open_export

LINES = b"".join(b"line %d\n" % number for number in range(50_000))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return decompressing(file).read()


@pytest.mark.parametrize("suffix", ["ndjson", "ndjson.gz", "zst"])
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"export.{suffix}"
    with new_file(path) as file:
        file.write(LINES)
    assert _read(path) == LINES
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_names_say_how_files_are_compressed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"export.{suffix}"
    with new_file(path) as file:
        file.write(LINES)
    assert path.stat().st_size < len(LINES) / 3


def test_other_programs_read_the_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "export.gz"
    with new_file(path) as file:
        file.write(LINES)
    assert gzip.decompress(path.read_bytes()) == LINES


@pytest.mark.parametrize("suffix", ["ndjson", "gz", "zst"])
def test_a_file_that_was_not_finished_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    with suppress(KeyboardInterrupt), new_file(tmp_path / f"export.{suffix}") as file:
        file.write(LINES)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_name_is_taken_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "export"
    with new_file(path) as file:
        file.write(LINES)
        assert not path.exists()
    assert path.exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists"), new_file(path):
        pass
    assert path.read_text() == "mine"


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), new_file(path, replace=True):
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with new_file(path, replace=True) as file:
        file.write(b"new")
    assert path.read_text() == "new"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "export"
    with pytest.raises(StorageError, match="written: No such file"), new_file(path):
        pass


def test_a_place_where_nothing_can_be_written_is_told_as_such() -> None:
    path = Path("/proc/self/export")  # where files can neither be created nor deleted
    with pytest.raises(StorageError, match="/proc/self/export: cannot be written"), new_file(path):
        pass


def test_a_file_system_that_turns_read_only_does_not_hide_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "export"):
        raise KeyboardInterrupt


def test_an_export_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError), open_export(tmp_path / "nowhere"):
        pass


def test_a_folder_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="read: Is a directory"), open_export(tmp_path):
        pass


def test_a_short_file_is_not_taken_for_a_compressed_one() -> None:
    assert decompressing(io.BufferedReader(io.BytesIO(b"a"))).read() == b"a"


def test_an_export_is_closed_to_other_users_also_in_place_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "realm.jsonl"
    path.touch(mode=0o666)
    before = os.umask(0)
    try:
        with new_file(path, replace=True) as file:
            file.write(b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
