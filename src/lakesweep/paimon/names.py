"""What the name of a file and the folder that it lies in say of it.

Only what a name proves to be written by Paimon can ever be garbage of Paimon. So names are matched
whole, with their folders: what somebody put beside the files of a table, copies and backups among
it, fits no pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.layout import Layout
from lakesweep.paimon.partitions import escape

#: The kinds that an interrupted writer leaves behind. All others are only ever removed on purpose.
LITTER = frozenset(
    {
        Kind.DATA,
        Kind.CHANGELOG,
        Kind.EXTRA,
        Kind.INDEX,
        Kind.MANIFEST,
        Kind.MANIFEST_LIST,
        Kind.INDEX_MANIFEST,
        Kind.STATISTICS,
        Kind.TEMPORARY,
    }
)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TEMPORARY = rf"\.[^/]+\.{_UUID}\.tmp"
_INDEX = rf"index-{_UUID}-\d+"
_GLOBAL_INDEX = rf"[a-z0-9_-]+-global-index-{_UUID}\.index"
_CODEC = r"(?:none|zst|zstd|lz4|lzo|snappy|gz|gzip|zlib|deflate|brotli|br|bz2|lzma|xz)"
_FORMAT = rf"(?:\.{_CODEC})?\.(?:parquet|orc|avro|lance|mosaic|row|vortex|blob)"
_TEXT_FORMAT = rf"\.(?:json|csv|text)(?:\.{_CODEC})?"
#: With `data-file.external-paths.strategy` entropy-inject, some bits of a hash are folders.
_ENTROPY = r"(?:[01]{4}/[01]{4}/[01]{4}/[01]{8}/)?"
_BRANCH = r"(?:branch/branch-[^/]+/)?"

_META_PATTERNS = (
    (r"branch/branch-[^/]+/", Kind.BRANCH),
    (rf"{_BRANCH}snapshot/snapshot-\d+", Kind.SNAPSHOT),
    (rf"{_BRANCH}changelog/changelog-\d+", Kind.CHANGELOG_META),
    (rf"{_BRANCH}(?:snapshot|changelog)/(?:EARLIEST|LATEST)", Kind.HINT),
    (rf"{_BRANCH}(?:snapshot|changelog)/{_TEMPORARY}", Kind.TEMPORARY),
    (rf"{_BRANCH}schema/schema-\d+", Kind.SCHEMA),
    (rf"{_BRANCH}tag/tag-success-file/[^/]+_SUCCESS", Kind.MARKER),
    (rf"{_BRANCH}tag/tag-.+", Kind.TAG),
    (rf"{_BRANCH}consumer/consumer-.+", Kind.CONSUMER),
    (r"service/service-[^/]+", Kind.SERVICE),
    (rf"manifest/manifest-list-{_UUID}-(?:\d+|changelog)", Kind.MANIFEST_LIST),
    (rf"manifest/index-manifest-{_UUID}(?:-\d+)?", Kind.INDEX_MANIFEST),
    (rf"manifest/manifest-{_UUID}(?:-changelog)?-\d+\.avro\.sidecar", Kind.EXTRA),
    (rf"manifest/manifest-{_UUID}(?:-changelog)?-\d+", Kind.MANIFEST),
    (rf"index/(?:{_INDEX}|{_GLOBAL_INDEX})", Kind.INDEX),
    (rf"statistics/stats?-{_UUID}-\d+", Kind.STATISTICS),
    (rf"(?:manifest|index|statistics)/{_TEMPORARY}", Kind.TEMPORARY),
)


def kinds_of_files(layout: Layout, names: pa.Array) -> pa.Array:
    """The kind of each file by its path below the table; null where no name of Paimon fits."""
    inner = re.escape(layout.data_folder.removeprefix(layout.root))
    return _match(names, [*_data_patterns(layout, inner), *_META_PATTERNS])


def kinds_of_external_files(layout: Layout, names: pa.Array) -> pa.Array:
    """The same by the path below one of the roots of external files."""
    inner = re.escape(layout.data_folder.removeprefix(layout.root))
    patterns = _data_patterns(layout, inner, _ENTROPY)
    return _match(names, [*patterns, (_GLOBAL_INDEX, Kind.INDEX)])


def _data_patterns(layout: Layout, inner: str, entropy: str = "") -> Iterator[tuple[str, Kind]]:
    keys = "".join(f"{re.escape(escape(name))}=[^/]+/" for name in layout.partitioning.names)
    bucket = rf"{inner}{keys}bucket-(?:\d+|postpone)/{entropy}"
    data = _written(layout, "data-file.prefix", "data-", postponed=True)
    changelog = _written(layout, "changelog-file.prefix", "changelog-")
    yield rf"{bucket}{data}{_FORMAT}", Kind.DATA
    yield rf"{bucket}{data}(?:\.vector{_FORMAT}|{_TEXT_FORMAT})", Kind.DATA
    yield rf"{bucket}{changelog}(?:{_FORMAT}|{_TEXT_FORMAT})", Kind.CHANGELOG
    any_format = rf"(?:(?:\.vector)?{_FORMAT}|{_TEXT_FORMAT})"
    yield rf"{bucket}(?:{data}|{changelog}){any_format}\.(?:index|blobref|row)", Kind.EXTRA
    yield rf"{bucket}{data}\.managed\.blob", Kind.EXTRA
    yield rf"{bucket}{_INDEX}", Kind.INDEX
    yield rf"{bucket}{_TEMPORARY}", Kind.TEMPORARY
    yield rf"{inner}{keys}_SUCCESS", Kind.MARKER


def _written(layout: Layout, option: str, default: str, *, postponed: bool = False) -> str:
    """The names of files before their formats; the prefix may have been another before."""
    prefixes = {default, layout.options.text(option) or default}
    chosen = "|".join(re.escape(prefix) for prefix in sorted(prefixes))
    # Each writer of buckets that are made later has a prefix of its own.
    writer = r"(?:-u-[^/]+-s-\d+-w-)?" if postponed else ""
    return rf"(?:{chosen}){writer}{_UUID}-\d+"


def _match(names: pa.Array, patterns: list[tuple[str, Kind]]) -> pa.Array:
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
