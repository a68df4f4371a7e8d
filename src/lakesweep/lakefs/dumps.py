"""Refs dumps: all commits, branches and tags of a repository, as a server writes them down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import pyarrow as pa

from lakesweep.errors import DamagedError, MissingError, UnreadableError
from lakesweep.lakefs.messages import decode_branch, decode_commit, decode_tag
from lakesweep.lakefs.properties import TableType
from lakesweep.lakefs.reading import Trees
from lakesweep.lakefs.refs import Branch, Commit, Refs, Tag, make_refs
from lakesweep.lakefs.table import read_table

Ref = TypeVar("Ref", Commit, Branch, Tag)


class RefsDump(msgspec.Struct, frozen=True):
    """The metaranges of a dump, as a manifest or a server names them."""

    commits_meta_range_id: str
    branches_meta_range_id: str
    tags_meta_range_id: str


def parse_manifest(path: str, data: bytes) -> RefsDump:
    """The document that names a dump; DamagedError for what is none."""
    try:
        return msgspec.json.decode(data, type=RefsDump)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(path, f"it is no manifest of a refs dump: {error}") from None


def read_dump(trees: Trees, dump: RefsDump) -> Refs:
    """All refs of a dump.

    UnreadableError where a piece of it is missing, as while another dump is written.
    """
    try:
        tags = list(_values(trees, dump.tags_meta_range_id, "tag", decode_tag))
        branches = list(_values(trees, dump.branches_meta_range_id, "branch", decode_branch))
        commits = list(_values(trees, dump.commits_meta_range_id, "commit", decode_commit))
    except MissingError as error:
        hint = "dump the refs again: lakesweep lifecycle refs NAME has its server do so"
        reason = "a refs dump names it, so the dump is not complete"
        raise UnreadableError(error.path, "missing", reason, hint=hint) from error
    return make_refs(commits, branches, tags)


def _values(
    trees: Trees, metarange_id: str, entity: str, decode: Callable[[str, bytes], Ref]
) -> Iterator[Ref]:
    _check_entity(trees, metarange_id, entity)
    for row in trees.ranges(metarange_id).to_pylist():
        path = trees.namespace.table(row["range_id"])
        data = trees.files.read(row["range_id"], meta=False)
        table = read_table(path, data, TableType.RANGES, row["range_id"])
        if (table.properties.entity, len(table.keys)) != (entity, row["count"]):
            raise DamagedError(path, f"it has not the {row['count']} records of {entity} type")
        records = table.gather(table.data, pa.binary())
        for key, record in zip(table.keys.to_pylist(), records.to_pylist(), strict=True):
            value = decode(path, record)
            _check_name(path, key, value)
            yield value


def _check_name(path: str, key: bytes, value: Commit | Branch | Tag) -> None:
    """No two records may be one: keys differ, so names do."""
    name = value.id if isinstance(value, Commit) else value.name
    if name.encode() != key:
        raise DamagedError(path, f"it has {name!r} where {key!r} belongs")


def _check_entity(trees: Trees, metarange_id: str, entity: str) -> None:
    """Where there is nothing of a kind, a metarange says so: no id, or another kind, is no dump."""
    path = trees.namespace.table(metarange_id)
    if not metarange_id:
        raise DamagedError(path, f"a refs dump does not name its metarange of {entity} type")
    data = trees.files.read(metarange_id, meta=True)
    if read_table(path, data, TableType.METARANGES).properties.entity != entity:
        raise DamagedError(path, f"it has not the records of {entity} type")
