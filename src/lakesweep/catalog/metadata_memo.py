"""A summary of an Iceberg metadata file, stored beside its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.catalog.entities import TableMemo
from lakesweep.errors import UsageError
from lakesweep.iceberg.metadata import TableMetadata, ViewMetadata, parse_metadata
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores


def read_memo(stores: Stores, metadata_location: str, *, view: bool) -> TableMemo:
    """Read a metadata file. UsageError if it is a view's and not a table's, or the other way."""
    address = parse(metadata_location)
    data = stores.open(address).read(address.key)
    metadata = parse_metadata(metadata_location, data)
    if isinstance(metadata, ViewMetadata) is not view:
        found, wanted = ("table", "view") if view else ("view", "table")
        raise UsageError(
            f"{metadata_location} is the metadata of a {found}, not of a {wanted}",
            hint=f"lakesweep catalog {found} create",
        )
    return memo_of(metadata)


def memo_of(metadata: TableMetadata | ViewMetadata) -> TableMemo:
    """What is kept of a metadata file."""
    table = metadata if isinstance(metadata, TableMetadata) else None
    return TableMemo(
        uuid=metadata.uuid,
        format_version=metadata.format_version,
        location=metadata.location,
        size_bytes=metadata.size_bytes,
        gc_enabled=metadata.gc_enabled,
        write_paths=metadata.write_paths,
        current_snapshot=table.current_snapshot if table else None,
        snapshots=len(table.snapshots) if table else 0,
    )
