from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.spark.session import ClassArchive, find_archive

JAVA = "/usr/lib/jvm/java-17/bin/java"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return find_archive(JAVA)


def end_of_java(options: list[str]) -> None:
    (option,) = options
    Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")


def test_java_is_told_of_no_archive_that_is_not_there(archive: ClassArchive) -> None:
    assert archive.reading == []


def test_what_java_wrote_is_read_when_it_was_kept(archive: ClassArchive) -> None:
    end_of_java(archive.writing)
    assert find_archive(JAVA).reading == []
    archive.keep()
    archive.forget()
    assert find_archive(JAVA).reading[0] == f"-XX:SharedArchiveFile={archive.path}"
    assert archive.path.read_bytes() == b"classes"


def test_what_was_not_kept_is_gone(archive: ClassArchive) -> None:
    end_of_java(archive.writing)
    archive.forget()
    assert list(archive.path.parent.iterdir()) == []


def test_a_java_that_wrote_nothing_leaves_nothing(archive: ClassArchive) -> None:
    assert archive.writing
    archive.keep()
    archive.forget()
    assert archive.reading == []


def test_two_that_write_at_once_do_not_meet(archive: ClassArchive) -> None:
    assert archive.writing != find_archive(JAVA).writing


def test_an_archive_is_written_once(archive: ClassArchive) -> None:
    end_of_java(archive.writing)
    archive.keep()
    assert find_archive(JAVA).writing == archive.reading


def test_another_java_has_another_archive(archive: ClassArchive) -> None:
    other = find_archive("/usr/lib/jvm/java-21/bin/java")
    assert other.path.parent == archive.path.parent
    assert other.path != archive.path


def test_a_folder_that_others_can_write_is_not_used(archive: ClassArchive) -> None:
    end_of_java(archive.writing)
    archive.keep()
    archive.path.parent.chmod(0o777)
    assert (archive.reading, archive.writing) == ([], [])


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    archive = find_archive(JAVA)
    assert (archive.reading, archive.writing) == ([], [])
    archive.forget()
