"""Look for tables of other formats around some files, where nothing was listed.

Metadata of an Iceberg table may name the files of another table: a Delta or Paimon table may
publish itself as an Iceberg one, and anyone may write metadata that claims more than is true. What
distinguishes these tables is in a few folders beside or above their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DeniedError, MissingError, UsageError
from lakesweep.marks.covers import collapse
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import parse
from lakesweep.sweep.paths.foreign_formats import (
    ForeignFolder,
    ForeignFormat,
    FormatSigns,
    foreign_folders,
)

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: The folders in which the signs of a format are.
_SIGNS = ("_delta_log/", ".hoodie/", "_lakefs/", "snapshot/", "schema/")
#: Up to this many folders are looked at; of more, wider ones.
_MOST_FOLDERS = 64
_WORKERS = 16
_OURS = (ForeignFormat.DATASET, ForeignFormat.ICEBERG)


def file_folders(batches: Iterable[pa.RecordBatch]) -> set[str]:
    """The folders that files, given by `path`, are in; wider ones if there are many."""
    found: set[str] = set()
    for batch in batches:
        folders = pc.replace_substring_regex(batch["path"], r"[^/]*$", "")
        found.update(pc.unique(folders).to_pylist())
        if len(found) > 4 * _MOST_FOLDERS:
            found = set(collapse(found, _MOST_FOLDERS))
    return found


def probe_formats(stores: StoreOpener, folders: Iterable[str]) -> tuple[ForeignFolder, ...]:
    """The tables of other formats that some folders are, or are in."""
    around = dict.fromkeys(each for folder in folders for each in _with_parents(folder))
    signs = FormatSigns()
    for paths in map_ordered(partial(_first_names, stores), around, workers=_WORKERS):
        signs.add(pa.array(paths, pa.string()))
    found = foreign_folders(signs.found())
    # A finished job leaves its sign in the folders of tables too, and Iceberg is no other format.
    return tuple(each for each in found if each.format not in _OURS)


def _with_parents(folder: str) -> Iterator[str]:
    try:
        address = parse(folder)
    except UsageError:
        return  # no store has it, so nothing in it can be deleted
    key = address.folder
    while True:
        yield address.child(key).path
        if not key:
            return
        key = key.rstrip("/").rpartition("/")[0]
        key = f"{key}/" if key else ""


def _first_names(stores: StoreOpener, folder: str) -> list[str]:
    """Some paths in each of the folders that have the signs of a format."""
    address = parse(folder)
    store = stores.open(address)
    found: list[str] = []
    for sign in _SIGNS:
        # Keys for one table alone may not be good for what is above it.
        with suppress(MissingError, DeniedError):
            page = store.list(f"{address.folder}{sign}", one_level=True)
            keys = [*page.entries.column("key").to_pylist(), *page.folders]
            found += [address.child(key).path for key in keys]
    return found
