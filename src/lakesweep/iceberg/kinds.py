"""The kinds of files that Iceberg has."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """One kind of file, by the name that the command line shows."""

    METADATA = "metadata"
    METADATA_LOG = "metadata-log"
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    DATA = "data"
    POSITION_DELETE = "position-delete"
    EQUALITY_DELETE = "equality-delete"
    DELETION_VECTOR = "deletion-vector"
    STATISTICS = "statistics"
    PARTITION_STATISTICS = "partition-statistics"
    VIEW_METADATA = "view-metadata"
    VERSION_HINT = "version-hint"
