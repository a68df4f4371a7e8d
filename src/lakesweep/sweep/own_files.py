"""Files that no command deletes, wherever they lie and whatever names them.

Metadata of a table is written by others and may name any path. What decides later what is
deleted must not be deleted by it: the store, the configuration, plans, quarantined files, lists
of pinned files, and the databases of catalogs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lakesweep.config import Config, IcebergCatalogRoot, LakesweepRoot, PinnedRoot
from lakesweep.config.search import FILE_NAME
from lakesweep.store.backends.urls import anchored, sqlite_file

#: What SQLite keeps beside a database while it is in use.
_BESIDE = ("", "-wal", "-shm", "-journal")


def own_files(config: Config, folder: Path, config_file: Path | None = None) -> tuple[str, ...]:
    """The addresses of files and folders that stay; relative ones are in `folder`."""
    return tuple(dict.fromkeys(_own_files(config, folder, config_file or folder / FILE_NAME)))


def database_files(uri: str, folder: Path) -> Iterator[str]:
    """The files of a database; none if it is on a server or in memory."""
    # SQLAlchemy names the driver after the dialect: sqlite+pysqlite.
    scheme, _, rest = uri.partition(":")
    file = sqlite_file(anchored(f"{scheme.partition('+')[0]}:{rest}", folder))
    if file is not None:
        yield from (f"{file}{ending}" for ending in _BESIDE)


def catalog_files(properties: Mapping[str, str], folder: Path) -> Iterator[str]:
    """The files of the database that an Iceberg catalog is in."""
    yield from database_files(properties.get("uri", ""), folder)


def _own_files(config: Config, folder: Path, config_file: Path) -> Iterator[str]:
    yield str(config_file.absolute())
    yield str(folder / ".lakesweep")
    yield from database_files(config.store.url, folder)
    for lake in config.lakes.values():
        yield from (each for each in (lake.plans, lake.quarantine) if each is not None)
        for root in lake.roots:
            match root:
                case IcebergCatalogRoot():
                    # PyIceberg opens relative files from the working directory.
                    yield from catalog_files(root.properties, Path.cwd())
                case LakesweepRoot(url=str(url)):
                    yield from database_files(url, folder)
                case PinnedRoot():
                    yield root.file
                case _:
                    pass
