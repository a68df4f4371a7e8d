"""Reading the files that an Iceberg table is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.errors import MissingError, NotFoundError, StorageError, UsageError
from lakesweep.iceberg.metadata import TableMetadata, ViewMetadata, parse_metadata
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

Metadata = TableMetadata | ViewMetadata


def read_file(stores: Stores, path: str) -> bytes:
    """The bytes of a file that some metadata names."""
    try:
        address = parse(path)
    except UsageError as error:
        raise StorageError(path, error.message, hint=error.hint) from error
    return stores.open(address).read(address.key)


def load_metadata(stores: Stores, path: str, location: str | None = None) -> Metadata:
    """The metadata file of a table or view; NotFoundError where it is not there."""
    try:
        return parse_metadata(path, read_file(stores, path), location)
    except MissingError as error:
        raise NotFoundError(
            f"{path}: {error.reason}", hint="ask the catalog for the table's present metadata file"
        ) from error
