"""An archive of the Java classes that Spark loads, with which it starts in half the time.

Java writes such an archive as it ends, which takes some seconds; so only a check-up makes one. Java
itself looks whether an archive fits, and goes on without one that does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from lakesweep.private_folders import cache_home, make_private


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive of one Java and one Spark is, or is to be."""

    path: Path

    @property
    def reading(self) -> list[str]:
        """What lets Java use the archive, if it is there."""
        return [f"-XX:SharedArchiveFile={self.path}"] if self.path.is_file() else []

    @contextmanager
    def writing(self) -> Iterator[list[str]]:
        """What lets a Java that ends with the block write the archive; nothing if it is there.

        An archive that is being written must not be read: it gets its name when it is whole.
        """
        if self.path.is_file():
            yield self.reading
            return
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        yield [f"-XX:ArchiveClassesAtExit={unfinished}"]
        if unfinished.is_file():
            unfinished.rename(self.path)


def find_archive(java: str) -> ClassArchive | None:
    """The archive for this Java and the Spark that is installed; None where none can be kept."""
    folder = cache_home() / "spark"
    if not make_private(folder):
        return None
    home = Path(java).resolve().parents[1]
    parts = (pyspark.__version__, str(Path(pyspark.__file__).parent), str(home), _release(home))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return ClassArchive(folder / f"classes-{digest}.jsa")


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""
