"""Where the tables of a warehouse lie: in folders of databases."""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.errors import DamagedError
from lakesweep.storage.address import Address, parse
from lakesweep.storage.levels import list_folders
from lakesweep.storage.store import StoreOpener

_DATABASE = ".db"


def is_database(path: str) -> bool:
    """Whether an address is that of a database of a warehouse."""
    return path.rstrip("/").endswith(_DATABASE)


def table_folders(stores: StoreOpener, path: str) -> Iterator[str]:
    """The folders that may be tables: of all databases here, or of the database that this is.

    A database whose link leads nowhere is among them: whoever opens it learns that it is lost.
    """
    here = parse(path)
    for name in list_folders(stores, here):
        folder = f"{here.folder}{name}/"
        if not name.endswith(_DATABASE):
            yield here.base + folder
            continue
        for inner in _tables(stores, here.child(folder)):
            yield f"{here.base}{folder}{inner}"


def _tables(stores: StoreOpener, database: Address) -> Iterator[str]:
    try:
        yield from (f"{name}/" for name in list_folders(stores, database))
    except DamagedError:
        yield ""


def warehouse_of(path: str) -> str:
    """The warehouse that a table lies in; the folder around it where that is no database."""
    around = _parent(path)
    return _parent(around) if is_database(around) else around


def _parent(path: str) -> str:
    address = parse(path)
    folder = address.folder.rstrip("/").rpartition("/")[0]
    return address.base + (f"{folder}/" if folder else "")
