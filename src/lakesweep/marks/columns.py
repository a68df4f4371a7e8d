"""The columns of the rows that marking yields, whatever the format.

A *source* is a file that names others: a metadata file, a manifest list, a manifest. It has a
number, and keeps itself alive under that number. Each pair of a source and the source it leads
to is stored once, so a referenced file needs only the number of one source to tell which roots
keep it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from lakesweep.hashing import Hashes

_LONG, _TEXT = pa.int64(), pa.string()


def _key(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_PATH = _key("path", _TEXT)
_HASH = (_key("h1", _LONG), _key("h2", _LONG))
_SOURCE = _key("source", _LONG)
_KIND = pa.field("kind", _TEXT)
_SIZE = pa.field("size_bytes", _LONG)

#: A referenced file. `source` is the number of the file that names it.
LIVE = pa.schema([*_HASH, _PATH, _KIND, _SIZE, _SOURCE])

#: A file that names others. `entries` counts what it holds, and is null where it was not read.
SOURCES = pa.schema([_SOURCE, _PATH, _KIND, _SIZE, pa.field("entries", _LONG)])

#: A file to read next. `size_bytes` and `entries` are what the file that names it expects; relative
#: paths in it are relative to `location`; `access` is the number of the access in a `Keyring`.
POINTERS = pa.schema(
    [
        _SOURCE,
        *_HASH,
        _PATH,
        _KIND,
        _SIZE,
        pa.field("entries", _LONG),
        pa.field("location", _TEXT),
        _key("access", _LONG),
    ]
)

#: The same, with the number of the source that names it.
CHILDREN = pa.schema([_key("parent", _LONG), *POINTERS])

#: A file that should name others and could not be read; `state` is a `ReadFailure`.
PROBLEMS = pa.schema(
    [_PATH, _key("state", _TEXT), _key("reason", _TEXT), pa.field("source", _LONG)]
)

#: How many files of a kind a source names in a folder, itself included. A few folders cover all of
#: them; their identities end in `/`.
USAGE = pa.schema(
    [
        _SOURCE,
        _key("kind", _TEXT),
        _key("folder", _TEXT),
        _key("files", _LONG),
        _key("bytes", _LONG),
    ]
)

#: What a root's own file says about the root: a `RootFacts` document.
FACTS = pa.schema([_SOURCE, _key("facts", _TEXT)])


class MarkKind(StrEnum):
    """What the rows of a batch are."""

    LIVE = "live"
    SOURCE = "source"
    CHILD = "child"
    PROBLEM = "problem"
    USAGE = "usage"
    FACT = "fact"


#: The columns of each.
SCHEMAS = {
    MarkKind.LIVE: LIVE,
    MarkKind.SOURCE: SOURCES,
    MarkKind.CHILD: CHILDREN,
    MarkKind.PROBLEM: PROBLEMS,
    MarkKind.USAGE: USAGE,
    MarkKind.FACT: FACTS,
}


class MarkBatch(NamedTuple):
    """Rows of one kind."""

    what: MarkKind
    rows: pa.RecordBatch


class RootFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a root says about itself: where it stores files, and whether gc may delete them.

    `hidden_fields` are partition fields whose names, which become folder names, look hidden. The
    oldest snapshot (milliseconds since 1970) and the oldest version that it still names help to
    guess the origin of other files. `log` holds the numbers of earlier metadata files, `layouts`
    how a Paimon table names files (see `paimon.layout_texts`).
    """

    location: str
    write_paths: tuple[str, ...] = ()
    gc_enabled: bool = True
    uuid: str | None = None
    format_version: int | None = None
    current_snapshot: int | None = None
    oldest_snapshot_ms: int | None = None
    oldest_version: int | None = None
    hidden_fields: tuple[str, ...] = ()
    log: tuple[int, ...] = ()
    layouts: tuple[str, ...] = ()


def source_numbers(hashes: Hashes) -> pa.Array:
    """The numbers of sources: the low 63 bits of their hashes."""
    return pa.array((hashes[0] & np.uint64(2**63 - 1)).view(np.int64))
