"""Real files to damage, from the archives of what the engines wrote."""

from __future__ import annotations

import re
import tarfile
from functools import cache
from pathlib import Path

_DATA = Path(__file__).parents[1] / "data"
_LARGEST = 1 << 16


@cache
def samples(archive: str, pattern: str, most: int = 40) -> tuple[bytes, ...]:
    """Some files of an archive whose names match, spread over all of them; none are large."""
    with tarfile.open(_DATA / f"{archive}.tar.xz") as tar:
        members = [
            m for m in tar if m.isfile() and m.size < _LARGEST and re.search(pattern, m.name)
        ]
        chosen = members[:: max(1, len(members) // most)]
        files = [tar.extractfile(member) for member in chosen]
        found = tuple(file.read() for file in files if file is not None)
    assert found, f"{archive} has no {pattern}"
    return found
