from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.spark.class_archive import ClassArchive, find_archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = find_archive("/usr/lib/jvm/java-17/bin/java")
    assert found is not None
    return found


def unfinished(options: list[str]) -> Path:
    (option,) = options
    return Path(option.removeprefix("-XX:ArchiveClassesAtExit="))


def test_java_is_told_of_an_archive_only_if_it_is_there(archive: ClassArchive) -> None:
    assert archive.reading == []
    archive.path.touch()
    assert archive.reading == [f"-XX:SharedArchiveFile={archive.path}"]


def test_what_java_wrote_gets_its_name_when_it_is_whole(archive: ClassArchive) -> None:
    with archive.writing() as options:
        unfinished(options).write_bytes(b"classes")
        assert archive.reading == []
    assert archive.path.read_bytes() == b"classes"
    assert list(archive.path.parent.iterdir()) == [archive.path]


def test_a_java_that_wrote_nothing_leaves_nothing(archive: ClassArchive) -> None:
    with archive.writing():
        pass
    assert archive.reading == []


def test_what_a_java_that_failed_had_written_is_not_taken(archive: ClassArchive) -> None:
    writing = archive.writing()
    unfinished(writing.__enter__()).write_bytes(b"half")
    writing.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert archive.reading == []
    with archive.writing() as options:
        assert not unfinished(options).exists()


def test_an_archive_is_written_once(archive: ClassArchive) -> None:
    archive.path.write_bytes(b"classes")
    with archive.writing() as options:
        assert options == archive.reading


def test_another_java_has_another_archive(archive: ClassArchive) -> None:
    other = find_archive("/usr/lib/jvm/java-21/bin/java")
    assert other is not None
    assert other.path.parent == archive.path.parent
    assert other != archive


def test_without_a_folder_of_its_own_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert find_archive("/usr/bin/java") is None
