"""Which of several metadata files of one table are current, where no catalog tells.

Names tell it if all of them are numbered in the same way. Otherwise the documents do: when they
were written, the number of the last snapshot, and the files in their logs. Nothing is guessed: a
file that is not certainly outdated is current, because what only it names would become garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakesweep.iceberg.file_kinds import compare_versions
from lakesweep.iceberg.metadata import Metadata, TableMetadata
from lakesweep.storage.address import identity

#: Writers with different clocks may commit to one table; Iceberg tolerates as much.
_CLOCK_SKEW_MS = 60_000


def current_metadata(found: Sequence[Metadata]) -> list[Metadata]:
    """The files that none of the others has certainly replaced, newest first.

    All are of one table and lie in one folder. Both orders are strict, so at least one is left.
    """
    is_numbered = all(compare_versions(found[0].path, each.path) is not None for each in found)
    replaces: Callable[[Metadata, Metadata], bool] = _by_name if is_numbered else _by_document
    left = [each for each in found if not any(replaces(other, each) for other in found)]
    return sorted(left, key=_updated_ms, reverse=True)


def _by_name(newer: Metadata, older: Metadata) -> bool:
    """Of files with the same number, one was committed, and nothing says which."""
    order = compare_versions(newer.path, older.path)
    is_refuted = _updated_ms(newer) + _CLOCK_SKEW_MS < _updated_ms(older)
    return order is not None and order > 0 and not is_refuted


def _by_document(newer: Metadata, older: Metadata) -> bool:
    """A log that reaches further back than a file and does not name it is that of another branch.

    The file may have been committed, and the newer one may be the attempt that failed.
    """
    if not isinstance(newer, TableMetadata) or not isinstance(older, TableMetadata):
        return False
    if newer.updated_ms is None or older.updated_ms is None:
        return False
    if newer.updated_ms <= older.updated_ms or (newer.sequence or 0) < (older.sequence or 0):
        return False
    if identity(older.path) in map(identity, newer.log):
        return True
    return newer.log_since_ms is not None and older.updated_ms < newer.log_since_ms


def _updated_ms(metadata: Metadata) -> int:
    """When a file was written; 0 if it does not tell."""
    return (metadata.updated_ms or 0) if isinstance(metadata, TableMetadata) else 0
