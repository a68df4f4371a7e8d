"""The kinds of files in a Paimon table."""

from __future__ import annotations

from enum import StrEnum


class PaimonKind(StrEnum):
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
    #: Named by a manifest that deletes it, or that nobody needs any more: it may be there or not.
    FORMER = "former"
    #: Of these nothing is reached: what a commit or a writer renames when it is whole, and what
    #: says that a partition or a tag is complete.
    TEMPORARY = "temporary"
    MARKER = "marker"
