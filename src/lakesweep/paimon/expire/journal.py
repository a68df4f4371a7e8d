"""The journal of an expiry: everything it will delete, written before it deletes.

Once a snapshot file is deleted, nothing names the files that it alone held. So the list of
files is first written below `_lakesweep/` in the table's folder, as a dataset that exists
completely or not at all, with a note of what the expiry is. A later run resumes an interrupted
one: its files become candidates again, and are deleted unless an owner now holds them.

Engines look for partitions (`key=value`), buckets (`bucket-…`) and their own folders in a
table's folder, and Paimon's own orphan cleanup lists nothing else. In `snapshot/`,
`changelog/` or `manifest/` foreign names would confuse readers or be deleted as orphans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from uuid import uuid4

import msgspec
import pyarrow as pa

from lakesweep.errors import DamagedError, MissingError
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import identity, parse
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.local.empty_folders import remove_empty_folders
from lakesweep.storage.object_store import ObjectInfo

_PREFIX = "expiry-"
_NOTE = "expiry.json"
_COMMITTED = "_dataset.json"
_VERSION = 1
#: A journal that has not changed for this long belongs to no running expiry.
_LONGEST_RUN = timedelta(days=1)


class JournalNote(msgspec.Struct, frozen=True, kw_only=True):
    """What an expiry is. `table` is the table's address: a copy of it has nothing to finish."""

    version: int = _VERSION
    table: str
    expiry: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one expiry that was started; `files` are its own."""

    table: PaimonTable
    address: str
    note: JournalNote | None
    files: tuple[ObjectInfo, ...]

    @property
    def is_committed(self) -> bool:
        """Whether it was written completely, so that its expiry may have deleted something."""
        return any(info.key.endswith(f"/{_COMMITTED}") for info in self.files)

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to this table, and not to one that this is a copy of."""
        return self.note is not None and self.note.table == identity(self.table.address.path)

    def is_old(self, now: datetime) -> bool:
        """Whether no run can still be using it."""
        times = [info.modified for info in self.files if info.modified is not None]
        return bool(times) and max(times) < now - _LONGEST_RUN

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The files to delete; DamagedError if they cannot be read."""
        stores = self.table.stores
        try:
            yield from read_dataset(stores, load_dataset(stores, self.address))
        except MissingError:
            return  # another run has finished it
        except DamagedError as error:
            if self.table.exists(self.address + _COMMITTED):
                raise DamagedError(error.path, error.reason, hint=_damaged(self.address)) from error

    def remove(self) -> None:
        """Delete it: first the file that makes it complete, last the note that makes it ours."""
        for pattern in (f"*/{_COMMITTED}", "*/part-*", "*"):
            keys = [info.key for info in self.files if fnmatchcase(info.key, pattern)]
            for _ in delete_files(self.table.stores, _paths(self.table, keys)):
                pass
        remove_empty_folders([self.address], self.table.address.path)


def write_journal(
    table: PaimonTable, expiry: str, batches: Iterable[pa.RecordBatch], now: datetime
) -> Journal:
    """Write what an expiry will delete."""
    address = f"{table.address.path}{JOURNAL_FOLDER}/{_PREFIX}{uuid4().hex}/"
    note = JournalNote(table=identity(table.address.path), expiry=expiry, created=now)
    place = parse(address + _NOTE)
    table.stores.open(place).write(place.key, msgspec.json.encode(note))
    write_dataset(table.stores, address, FILE_SCHEMA, batches)
    return _load(table, address)


def find_journals(table: PaimonTable) -> list[Journal]:
    """All journals of a table, finished or not."""
    folders = table.list(JOURNAL_FOLDER).folders
    names = sorted(name for name in folders if name.startswith(_PREFIX))
    return [_load(table, f"{table.address.path}{JOURNAL_FOLDER}/{name}/") for name in names]


def _load(table: PaimonTable, address: str) -> Journal:
    files = list_level(table.stores, parse(address)).files
    return Journal(table, address, _read_note(table, address), tuple(files.values()))


def _read_note(table: PaimonTable, address: str) -> JournalNote | None:
    try:
        return msgspec.json.decode(table.read(address + _NOTE), type=JournalNote)
    except MissingError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError(
            address + _NOTE, f"is not the note of an expiry: {error}", hint=_damaged(address)
        ) from error


def _paths(table: PaimonTable, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
    paths = [table.address.base + key for key in keys]
    yield pa.RecordBatch.from_pydict(
        {"path": pa.array(paths, pa.string()), "size_bytes": pa.nulls(len(paths), pa.int64())}
    )


def _damaged(address: str) -> str:
    return f"delete {address}; lakesweep paimon orphans then finds the files that it names"
