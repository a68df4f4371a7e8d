"""Find the Java that Spark will run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lakesweep.errors import SparkSetupError

OLDEST_JAVA = 17

_HINT = (
    f"install Java {OLDEST_JAVA} or newer (apt install openjdk-17-jre-headless, or "
    "brew install openjdk), or set JAVA_HOME to one; without Java, use --engine local, or "
    'engine = "local" at the top of lakesweep.toml'
)


def find_java(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """The Java that Spark will start, and its version; SparkSetupError if Spark cannot use it."""
    home = environment.get("JAVA_HOME")
    name = str(Path(home, "bin", "java")) if home else "java"
    java = shutil.which(name, path=environment.get("PATH"))
    if java is None:
        where = f"JAVA_HOME={home} holds none" if home else "none is on the path"
        raise SparkSetupError(f"Spark needs Java, but {where}", hint=_HINT)
    version = _released_version(java) or java_version(java)
    if version is None:
        raise SparkSetupError(f"{java} does not report its version", hint=_HINT)
    if version < OLDEST_JAVA:
        raise SparkSetupError(f"{java} is version {version}, too old for Spark", hint=_HINT)
    return java, version


def java_version(java: str) -> int | None:
    """The major version of a Java, or None if it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603  the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _major(r'version "(?:1\.)?(\d+)', answer.stderr)


def _released_version(java: str) -> int | None:
    """The version in the release file next to the program, without starting Java."""
    try:
        text = Path(java).resolve().parents[1].joinpath("release").read_text(errors="replace")
    except OSError:
        return None
    return _major(r'(?m)^JAVA_VERSION="(?:1\.)?(\d+)', text)


def _major(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None
