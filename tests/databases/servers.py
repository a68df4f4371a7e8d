"""Servers of MongoDB and DynamoDB that `scripts/setup-databases` fetches and compiles."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.processes import running, scratch_folder

_PROGRAMS = Path(__file__).parent / "programs"
_DATABASES = Path(__file__).parents[2] / ".databases"
_ANNOUNCEMENT = r"Running on (\w+://127\.0\.0\.1:\d+)"


@contextmanager
def mongo_server() -> Iterator[str]:
    """mongo-java-server, in memory; the beginning of its URLs."""
    folder = _fetched("mongo")
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    command = [java, "-Xmx1g", "-cp", f"{folder}:{folder}/*", "MongoServerMain"]
    with _serving(command) as address:
        yield address


@contextmanager
def dynalite_server() -> Iterator[str]:
    """dynalite, in memory; its endpoint."""
    modules = _fetched("dynalite") / "node_modules"
    command = ["env", f"NODE_PATH={modules}", "node", str(_PROGRAMS / "dynalite.js")]
    with _serving(command) as address:
        yield address


@contextmanager
def _serving(command: Sequence[str]) -> Iterator[str]:
    assert shutil.which(command[0]), f"{command[0]} is missing: run scripts/setup-databases"
    with (
        scratch_folder("database") as scratch,
        running(command, scratch / "log", _ANNOUNCEMENT) as found,
    ):
        yield found[1]


def _fetched(name: str) -> Path:
    folder = _DATABASES / name
    assert folder.is_dir(), f"{name} is missing: run scripts/setup-databases"
    return folder
