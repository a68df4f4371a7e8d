"""What an expiry is about to delete, written down first.

Once the file of a snapshot is gone, nothing names what it alone held. So all that will go is first
written into the table's folder, below `_lakesweep/`: a dataset of files, and a note of what the
expiry is. The dataset is there as a whole or not at all. A later run takes over what an interrupted
one left: its files become candidates again, and go unless somebody holds them by then.

Engines look for partitions (`key=value`), buckets (`bucket-…`) and their own folders in a table's
folder, and Paimon's own clean-up lists nothing else, so that the journal is in nobody's way there.
In `snapshot/`, `changelog/` or `manifest/` it would be: foreign names in them confuse readers, or
are deleted as orphans.
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
from lakesweep.paimon.table import PaimonTable
from lakesweep.storage.address import identity, parse
from lakesweep.storage.datasets import load_dataset, read_dataset, write_dataset
from lakesweep.storage.deleting import delete_files
from lakesweep.storage.files import FILE_SCHEMA
from lakesweep.storage.levels import list_level
from lakesweep.storage.local.emptying import remove_empty_folders
from lakesweep.storage.store import ObjectInfo

FOLDER = "_lakesweep"
_PREFIX = "expiry-"
_NOTE = "expiry.json"
_COMMITTED = "_dataset.json"
_VERSION = 1
#: Another run that is under way writes into its own journal; after this time there is none.
_PATIENCE = timedelta(days=1)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an expiry is. `table` is where the table was: a copy of it has nothing to finish."""

    version: int = _VERSION
    table: str
    expiry: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Journal:
    """One expiry that was begun. `files` are those of the journal itself."""

    table: PaimonTable
    address: str
    note: Note | None
    files: tuple[ObjectInfo, ...]

    @property
    def is_committed(self) -> bool:
        """Whether it was written to its end, so that its expiry may have begun."""
        return any(info.key.endswith(f"/{_COMMITTED}") for info in self.files)

    @property
    def is_ours(self) -> bool:
        """Whether it is about this table, and not about one that was copied with all its files."""
        return self.note is not None and self.note.table == identity(self.table.address.path)

    def is_old(self, now: datetime) -> bool:
        """Whether no run can be at work on it any more."""
        times = [info.modified for info in self.files if info.modified is not None]
        return bool(times) and max(times) < now - _PATIENCE

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What was to be deleted; DamagedError where it cannot be read."""
        stores = self.table.stores
        try:
            yield from read_dataset(stores, load_dataset(stores, self.address))
        except MissingError:
            return  # another run has finished it meanwhile
        except DamagedError as error:
            if self.table.exists(self.address + _COMMITTED):
                raise DamagedError(error.path, error.reason, hint=_damaged(self.address)) from error

    def remove(self) -> None:
        """Forget it: first what makes it whole, last what tells that it is ours."""
        for pattern in (f"*/{_COMMITTED}", "*/part-*", "*"):
            keys = [info.key for info in self.files if fnmatchcase(info.key, pattern)]
            for _ in delete_files(self.table.stores, _paths(self.table, keys)):
                pass
        remove_empty_folders([self.address], self.table.address.path)


def write_journal(
    table: PaimonTable, expiry: str, batches: Iterable[pa.RecordBatch], now: datetime
) -> Journal:
    """Write down what will go."""
    address = f"{table.address.path}{FOLDER}/{_PREFIX}{uuid4().hex}/"
    note = Note(table=identity(table.address.path), expiry=expiry, created=now)
    place = parse(address + _NOTE)
    table.stores.open(place).write(place.key, msgspec.json.encode(note))
    write_dataset(table.stores, address, FILE_SCHEMA, batches)
    return _load(table, address)


def find_journals(table: PaimonTable) -> list[Journal]:
    """All journals of a table, finished or not."""
    folders = table.list(FOLDER).folders
    names = sorted(name for name in folders if name.startswith(_PREFIX))
    return [_load(table, f"{table.address.path}{FOLDER}/{name}/") for name in names]


def _load(table: PaimonTable, address: str) -> Journal:
    files = list_level(table.stores, parse(address)).files
    return Journal(table, address, _read_note(table, address), tuple(files.values()))


def _read_note(table: PaimonTable, address: str) -> Note | None:
    try:
        return msgspec.json.decode(table.read(address + _NOTE), type=Note)
    except MissingError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError(
            address + _NOTE, f"is no note of an expiry: {error}", hint=_damaged(address)
        ) from error


def _paths(table: PaimonTable, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
    paths = [table.address.base + key for key in keys]
    yield pa.RecordBatch.from_pydict(
        {"path": pa.array(paths, pa.string()), "size_bytes": pa.nulls(len(paths), pa.int64())}
    )


def _damaged(address: str) -> str:
    return f"remove {address}; what it names is then found by lakesweep paimon orphans"
