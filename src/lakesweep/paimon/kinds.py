"""The kinds of files that Paimon has."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """One kind of file, by the name that the command line shows."""

    SNAPSHOT = "snapshot"
    SCHEMA = "schema"
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    INDEX_MANIFEST = "index-manifest"
    DATA = "data"
    CHANGELOG = "changelog"
    EXTRA = "extra"
    INDEX = "index"
    STATISTICS = "statistics"
    TAG = "tag"
    BRANCH = "branch"
    CONSUMER = "consumer"
    CHANGELOG_META = "changelog-meta"
    HINT = "hint"
    SERVICE = "service"
