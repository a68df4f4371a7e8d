from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.errors import SparkSetupError
from lakesweep.spark.java import find_java, java_version


def make_java(home: Path, answer: str = "", release: str | None = None) -> Path:
    """A JAVA_HOME whose java gives this answer, and may have a file about its release."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return java


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ("Segmentation fault", None),
    ],
)
def test_the_version_is_read_from_what_java_says(
    tmp_path: Path, answer: str, version: int | None
) -> None:
    assert java_version(str(make_java(tmp_path, answer))) == version


def test_the_file_beside_java_saves_asking_it(tmp_path: Path) -> None:
    java = make_java(tmp_path, "what?", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.3"\n')
    assert find_java({"JAVA_HOME": str(tmp_path)}) == (str(java), 21)


def test_java_is_looked_for_on_the_path(tmp_path: Path) -> None:
    java = make_java(tmp_path, 'openjdk version "17.0.1"')
    assert find_java({"PATH": str(java.parent)}) == (str(java), 17)


def test_a_home_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match=r"JAVA_HOME=.* holds none") as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})
    assert "install Java 17" in caught.value.hint


def test_a_path_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match="none is on the path"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_that_is_too_old_is_told(tmp_path: Path) -> None:
    make_java(tmp_path, 'java version "1.8.0_292"')
    with pytest.raises(SparkSetupError, match="version 8, too old"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_does_not_run_is_told(tmp_path: Path) -> None:
    make_java(tmp_path, "what?")
    with pytest.raises(SparkSetupError, match="does not report"):
        find_java({"JAVA_HOME": str(tmp_path)})
