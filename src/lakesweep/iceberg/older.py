"""Metadata files that only the logs of older metadata files still name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.errors import NotFoundError
from lakesweep.iceberg.metadata import TableMetadata
from lakesweep.iceberg.reading import load_metadata
from lakesweep.storage.address import identity
from lakesweep.storage.tolerance import READ_ERRORS, Tolerance, problem_of

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores


def older_metadata(stores: Stores, table: TableMetadata, tolerance: Tolerance) -> list[str]:
    """The paths, oldest first, that are not in the table's own log.

    A log is cut at its old end, so the oldest file of a log that can still be read names the
    longest stretch behind it. Files that a writer deleted on commit are normal here and passed by.
    The log of a file that belongs to another table, as after a registration, is not followed.
    """
    known = {identity(path) for path in (table.path, *table.log)}
    found: list[str] = []
    log = table.log
    while log:
        unknown = []
        for path in _first_readable_log(stores, log, table.uuid, tolerance):
            if identity(path) not in known:
                known.add(identity(path))
                unknown.append(path)
        found = unknown + found
        log = tuple(unknown)
    return found


def _first_readable_log(
    stores: Stores, log: tuple[str, ...], uuid: str | None, tolerance: Tolerance
) -> tuple[str, ...]:
    for path in log:
        try:
            older = load_metadata(stores, path)
        except NotFoundError:
            continue
        except READ_ERRORS as error:
            tolerance.meet(problem_of(error))
            continue
        return older.log if isinstance(older, TableMetadata) and older.uuid == uuid else ()
    return ()
