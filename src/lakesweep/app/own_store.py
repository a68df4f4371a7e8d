"""Opening Lakesweep's own store, with all types of objects that its parts keep there."""

from __future__ import annotations

from collections.abc import Callable

from lakesweep.catalog.access.service_tokens import TYPES as TOKEN_TYPES
from lakesweep.catalog.commits import TYPES as CATALOG_TYPES
from lakesweep.clock import Clock
from lakesweep.maintenance.run_records import TYPES as MAINTENANCE_TYPES
from lakesweep.private_folders import close_to_others
from lakesweep.runs.job_records import TYPES as JOB_TYPES
from lakesweep.runs.records import TYPES as RUN_TYPES
from lakesweep.store import Store
from lakesweep.store.backends.urls import sqlite_file
from lakesweep.store.objects.object_types import with_offered_types
from lakesweep.store.store import OWN_TYPES


def open_own_store(url: str, clock: Clock, notify: Callable[[str], object]) -> Store:
    """The store at an address. An embedded one is closed to other users first."""
    _close_to_others(url, notify)
    own = {**OWN_TYPES, **RUN_TYPES, **JOB_TYPES, **CATALOG_TYPES, **TOKEN_TYPES}
    types = with_offered_types({**own, **MAINTENANCE_TYPES})
    return Store.open(url, types=types, clock=clock)


def _close_to_others(url: str, notify: Callable[[str], object]) -> None:
    """Narrow the rights on an embedded store that was created with a wide umask."""
    file = sqlite_file(url)
    if file is None:
        return
    files = [file, *(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm", "journal"))]
    # Other folders are not ours to change; in this one lie our plans and caches, too.
    folders = [file.parent] if file.parent.name == ".lakesweep" else []
    if [path for path in (*files, *folders) if close_to_others(path)]:
        notify(
            f"other users had access to the store {file}; now only you have."
            " To share a store, use a database server"
        )
