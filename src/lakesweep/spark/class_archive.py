"""An archive of the Java classes that Spark loads, which halves its start-up time.

Java writes the archive on exit, which takes some seconds, so only `doctor` makes one. Java
itself checks whether an archive fits, and ignores one that does not.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from lakesweep.private_folders import cache_home, make_private

#: Java would map the archive at a random address, and rewrite all of it for that. A Java that does
#: not know the option ignores it, because Spark tells it to.
_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one Spark, in a folder that only we can write.

    It is written under a temporary name, because an unfinished one must not be read.
    """

    path: Path
    unfinished: Path

    @property
    def reading(self) -> list[str]:
        """The options that make Java use the archive, if it exists."""
        is_there = make_private(self.path.parent) and self.path.is_file()
        return [f"-XX:SharedArchiveFile={self.path}", *_IN_PLACE] if is_there else []

    @property
    def writing(self) -> list[str]:
        """The options that make Java write the archive on exit, or use it if it exists."""
        if not make_private(self.path.parent):
            return []
        return self.reading or [f"-XX:ArchiveClassesAtExit={self.unfinished}"]

    def keep(self) -> None:
        """Rename what Java wrote, once that Java has exited cleanly."""
        with suppress(FileNotFoundError):
            self.unfinished.rename(self.path)

    def forget(self) -> None:
        """Remove an archive that was not kept."""
        with suppress(OSError):
            self.unfinished.unlink()


def find_archive(java: str) -> ClassArchive:
    """The archive for this Java and the installed Spark, which may not exist yet."""
    home = Path(java).resolve().parents[1]
    parts = (pyspark.__version__, str(Path(pyspark.__file__).parent), str(home), _release(home))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    path = cache_home() / "spark" / f"classes-{digest}.jsa"
    return ClassArchive(path, path.with_suffix(f".{secrets.token_hex(4)}"))


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""
