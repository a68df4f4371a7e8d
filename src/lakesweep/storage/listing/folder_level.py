"""List the files and folders directly inside one folder, and the links among them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.errors import DamagedError, MissingError
from lakesweep.storage.address import Address, StoreKind
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.scan import check_prefix
from lakesweep.storage.object_store import ListingPage, ObjectInfo, StoreOpener


@dataclass(frozen=True, slots=True)
class FolderLevel:
    """The files in one folder by name, and the names of its subfolders."""

    files: Mapping[str, ObjectInfo]
    folders: tuple[str, ...]


def list_level(stores: StoreOpener, folder: Address) -> FolderLevel:
    """One level of a folder. A missing folder is empty; any other error is raised.

    If the folder is missing because a link to it is broken, DamagedError.
    """
    prefix = folder.folder
    files: dict[str, ObjectInfo] = {}
    folders: list[str] = []
    for page in _pages(stores, folder):
        for key, *rest in zip(*(column.to_pylist() for column in page.entries), strict=True):
            files[key.removeprefix(prefix)] = ObjectInfo(key, *rest)
        folders += [name.removeprefix(prefix).removesuffix("/") for name in page.folders]
    return FolderLevel(files, tuple(folders))


def list_folders(stores: StoreOpener, folder: Address) -> tuple[str, ...]:
    """The names of the folders in a folder; on a disk, including those of links.

    Listings do not follow links, because nothing may be deleted through them. But code that
    collects references must not miss a folder because it was moved to another disk, or because that
    disk is not mounted.
    """
    names = list_level(stores, folder).folders
    return (*names, *find_links(folder.folder)) if folder.kind is StoreKind.FILE else names


def info_batch(kind: str, base: str, infos: Iterable[ObjectInfo]) -> pa.RecordBatch:
    """Files of one kind as FILE_SCHEMA; `base` precedes their keys."""
    rows = [(base + info.key, kind, info.size_bytes, info.modified, info.etag) for info in infos]
    columns = zip(*rows, strict=True) if rows else ((),) * len(FILE_SCHEMA)
    arrays = [
        pa.array(list(values), field.type)
        for values, field in zip(columns, FILE_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def _pages(stores: StoreOpener, folder: Address) -> Iterator[ListingPage]:
    store, prefix = stores.open(folder), folder.folder
    cursor = None
    while True:
        try:
            page = store.list(prefix, one_level=True, cursor=cursor)
        except MissingError:
            # A missing folder references nothing, but behind a broken link there may be live
            # tables.
            _check_not_lost(folder)
            return
        check_prefix(store, prefix, page.entries.column("key"))
        yield page
        cursor = page.next
        if cursor is None:
            return


def _check_not_lost(folder: Address) -> None:
    lost = find_broken_link(folder.folder) if folder.kind is StoreKind.FILE else None
    if lost is not None:
        raise DamagedError(lost, "is a broken link")


def find_links(folder: str) -> list[str]:
    """The names of links in a local folder that lead to folders, or are broken."""
    try:
        with os.scandir("/" + folder) as entries:
            return [each.name for each in entries if each.is_symlink() and not each.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_broken_link(folder: str) -> str | None:
    """The path of the broken link at a local folder or above it, if any."""
    path = "/" + folder.rstrip("/")
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return None if os.path.exists(path) else path


def find_broken_links(folder: str) -> list[str]:
    """The paths of broken links in a local folder.

    Hidden ones do not count: editors use them to lock files.
    """
    try:
        with os.scandir("/" + folder) as entries:
            links = [each for each in entries if each.is_symlink() and each.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(each.path for each in links if not os.path.exists(each.path))
