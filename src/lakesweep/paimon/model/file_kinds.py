"""The kinds of files in a Paimon table, and how names and folders tell them.

Only a file whose name was certainly written by Paimon can be an orphan file. Whole paths
below the table are matched, so copies, backups and foreign files match no pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.model.layout import ENTROPY, Layout
from lakesweep.paimon.model.partitioning import escape


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
    #: Named by a manifest that deletes it, or that is no longer needed: it may exist or not.
    FORMER = "former"
    #: Of these nothing is reached: what a commit or a writer renames when it is whole, and what
    #: says that a partition or a tag is complete.
    TEMPORARY = "temporary"
    MARKER = "marker"


#: The kinds that an interrupted writer leaves behind. All others are only ever removed on purpose.
ORPHAN_KINDS = frozenset(
    {
        PaimonKind.DATA,
        PaimonKind.CHANGELOG,
        PaimonKind.EXTRA,
        PaimonKind.INDEX,
        PaimonKind.MANIFEST,
        PaimonKind.MANIFEST_LIST,
        PaimonKind.INDEX_MANIFEST,
        PaimonKind.STATISTICS,
        PaimonKind.TEMPORARY,
    }
)
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TEMPORARY = rf"\.[^/]+\.{_UUID}\.tmp"
_INDEX = rf"index-{_UUID}-\d+"
_GLOBAL_INDEX = rf"[a-z0-9_-]+-global-index-{_UUID}\.index"
_CODEC = r"(?:none|zst|zstd|lz4|lzo|snappy|gz|gzip|zlib|deflate|brotli|br|bz2|lzma|xz)"
_FORMAT = rf"(?:\.{_CODEC})?\.(?:parquet|orc|avro|lance|mosaic|row|vortex|blob)"
_TEXT_FORMAT = rf"\.(?:json|csv|text)(?:\.{_CODEC})?"
_BRANCH = r"(?:branch/branch-[^/]+/)?"
_META_PATTERNS = (
    (r"branch/branch-[^/]+/", PaimonKind.BRANCH),
    (rf"{_BRANCH}snapshot/snapshot-\d+", PaimonKind.SNAPSHOT),
    (rf"{_BRANCH}changelog/changelog-\d+", PaimonKind.CHANGELOG_META),
    (rf"{_BRANCH}(?:snapshot|changelog)/(?:EARLIEST|LATEST)", PaimonKind.HINT),
    (rf"{_BRANCH}(?:snapshot|changelog)/{_TEMPORARY}", PaimonKind.TEMPORARY),
    (rf"{_BRANCH}schema/schema-\d+", PaimonKind.SCHEMA),
    (rf"{_BRANCH}tag/tag-success-file/[^/]+_SUCCESS", PaimonKind.MARKER),
    (rf"{_BRANCH}tag/tag-.+", PaimonKind.TAG),
    (rf"{_BRANCH}consumer/consumer-.+", PaimonKind.CONSUMER),
    (r"service/service-[^/]+", PaimonKind.SERVICE),
    (rf"manifest/manifest-list-{_UUID}-(?:\d+|changelog)", PaimonKind.MANIFEST_LIST),
    (rf"manifest/index-manifest-{_UUID}(?:-\d+)?", PaimonKind.INDEX_MANIFEST),
    (rf"manifest/manifest-{_UUID}(?:-changelog)?-\d+\.avro\.sidecar", PaimonKind.EXTRA),
    (rf"manifest/manifest-{_UUID}(?:-changelog)?-\d+", PaimonKind.MANIFEST),
    (rf"index/(?:{_INDEX}|{_GLOBAL_INDEX})", PaimonKind.INDEX),
    (rf"statistics/stats?-{_UUID}-\d+", PaimonKind.STATISTICS),
    (rf"(?:manifest|index|statistics)/{_TEMPORARY}", PaimonKind.TEMPORARY),
)


def kinds_of_files(layout: Layout, names: pa.Array) -> pa.Array:
    """The kind of each file by its path below the table; null where no name of Paimon fits."""
    inner = re.escape(layout.data_folder.removeprefix(layout.root))
    return _match(names, [*_data_patterns(layout, inner), *_META_PATTERNS])


def kinds_of_external_files(layout: Layout, names: pa.Array) -> pa.Array:
    """The same by the path below one of the roots of external files."""
    inner = re.escape(layout.data_folder.removeprefix(layout.root))
    patterns = _data_patterns(layout, inner, ENTROPY)
    return _match(names, [*patterns, (_GLOBAL_INDEX, PaimonKind.INDEX)])


def _data_patterns(
    layout: Layout, inner: str, entropy: str = ""
) -> Iterator[tuple[str, PaimonKind]]:
    keys = "".join(f"{re.escape(escape(name))}=[^/]+/" for name in layout.partitioning.names)
    bucket = rf"{inner}{keys}bucket-(?:\d+|postpone)/{entropy}"
    data = _written(layout, "data-file.prefix", "data-", postponed=True)
    changelog = _written(layout, "changelog-file.prefix", "changelog-")
    yield rf"{bucket}{data}{_FORMAT}", PaimonKind.DATA
    yield rf"{bucket}{data}(?:\.vector{_FORMAT}|{_TEXT_FORMAT})", PaimonKind.DATA
    yield rf"{bucket}{changelog}(?:{_FORMAT}|{_TEXT_FORMAT})", PaimonKind.CHANGELOG
    any_format = rf"(?:(?:\.vector)?{_FORMAT}|{_TEXT_FORMAT})"
    yield rf"{bucket}(?:{data}|{changelog}){any_format}\.(?:index|blobref|row)", PaimonKind.EXTRA
    yield rf"{bucket}{data}\.managed\.blob", PaimonKind.EXTRA
    yield rf"{bucket}{_INDEX}", PaimonKind.INDEX
    yield rf"{bucket}{_TEMPORARY}", PaimonKind.TEMPORARY
    yield rf"{inner}{keys}_SUCCESS", PaimonKind.MARKER


def _written(layout: Layout, option: str, default: str, *, postponed: bool = False) -> str:
    """The names of files before their formats; the prefix may have been another before."""
    prefixes = {default, layout.options.text(option) or default}
    chosen = "|".join(re.escape(prefix) for prefix in sorted(prefixes))
    # Each writer of buckets that are made later has a prefix of its own.
    writer = r"(?:-u-[^/]+-s-\d+-w-)?" if postponed else ""
    return rf"(?:{chosen}){writer}{_UUID}-\d+"


def _match(names: pa.Array, patterns: list[tuple[str, PaimonKind]]) -> pa.Array:
    """The first kind whose pattern fits; each pattern looks only at what is left by then."""
    kinds = pa.nulls(len(names), pa.string())
    for pattern, kind in patterns:
        left = pc.is_null(kinds)
        rest = names.filter(left)
        if not len(rest):
            break
        fits = pc.match_substring_regex(rest, rf"^(?:{pattern})\z")
        found = pc.if_else(fits, kind.value, pa.scalar(None, pa.string()))
        kinds = pc.replace_with_mask(kinds, left, found)
    return kinds
