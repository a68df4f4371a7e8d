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

#: Java would put the archive to another address each time, and for that rewrite all of it. Where a
#: Java does not know the option, Spark has it go on.
_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark, in a folder where nobody else can write.

    It is written under another name, because an unfinished one must not be read.
    """

    path: Path
    unfinished: Path

    @property
    def reading(self) -> list[str]:
        """What lets Java use the archive, if it is there."""
        is_there = make_private(self.path.parent) and self.path.is_file()
        return [f"-XX:SharedArchiveFile={self.path}", *_IN_PLACE] if is_there else []

    @property
    def writing(self) -> list[str]:
        """What lets Java write the archive as it ends; if it is there already, use it."""
        if not make_private(self.path.parent):
            return []
        return self.reading or [f"-XX:ArchiveClassesAtExit={self.unfinished}"]

    def keep(self) -> None:
        """Give what a Java wrote its name, once that Java has ended well."""
        with suppress(FileNotFoundError):
            self.unfinished.rename(self.path)

    def forget(self) -> None:
        """Remove what was not kept."""
        with suppress(OSError):
            self.unfinished.unlink()


def find_archive(java: str) -> ClassArchive:
    """The archive for this Java and the Spark that is installed, which may not be there yet."""
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
