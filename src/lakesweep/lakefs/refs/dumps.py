"""Refs dumps: all commits, branches and tags of a repository, as a server writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec
import pyarrow as pa

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, MissingError, UnreadableError
from lakesweep.lakefs.ranges.blocks import uvarint
from lakesweep.lakefs.ranges.reader import Trees
from lakesweep.lakefs.ranges.sstable import SSTableType, read_sstable
from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)
from lakesweep.untrusted.documents import JSON_ERRORS

Ref = TypeVar("Ref", RepositoryCommit, RepositoryBranch, RepositoryTag)


class RefsDump(msgspec.Struct, frozen=True):
    """The metaranges of a dump, as a manifest or a server names them."""

    commits_meta_range_id: str
    branches_meta_range_id: str
    tags_meta_range_id: str


def parse_manifest(path: str, data: bytes) -> RefsDump:
    """The document that names a dump; DamagedError if it is not one."""
    try:
        return typed_json(data, RefsDump)
    except JSON_ERRORS as error:
        raise DamagedError(path, f"it is not the manifest of a refs dump: {error}") from None


def read_dump(trees: Trees, dump: RefsDump) -> Refs:
    """All refs of a dump.

    UnreadableError if a part of it is missing, as while another dump is being written.
    """
    with _telling_missing():
        tags = list(_values(trees, dump.tags_meta_range_id, "tag", decode_tag))
        branches = list(_values(trees, dump.branches_meta_range_id, "branch", decode_branch))
        commits = list(_values(trees, dump.commits_meta_range_id, "commit", decode_commit))
    return make_refs(commits, branches, tags)


def files_of_dump(trees: Trees, dump: RefsDump) -> frozenset[str]:
    """The ids of all files of a dump."""
    metaranges = set(msgspec.structs.astuple(dump)) - {""}
    with _telling_missing():
        ranges = [trees.ranges(metarange)["range_id"].to_pylist() for metarange in metaranges]
    return frozenset(metaranges.union(*ranges))


@contextmanager
def _telling_missing() -> Iterator[None]:
    try:
        yield
    except MissingError as error:
        hint = "dump the refs again with lakesweep lifecycle refs NAME"
        reason = "a refs dump names it, so the dump is incomplete"
        raise UnreadableError(error.path, "missing", reason, hint=hint) from error


def _values(
    trees: Trees, metarange_id: str, entity: str, decode: Callable[[str, bytes], Ref]
) -> Iterator[Ref]:
    _check_entity(trees, metarange_id, entity)
    for row in trees.ranges(metarange_id).to_pylist():
        path = trees.namespace.table(row["range_id"])
        data = trees.files.read(row["range_id"], meta=False)
        table = read_sstable(path, data, SSTableType.RANGES, row["range_id"])
        if (table.properties.entity, len(table.keys)) != (entity, row["count"]):
            raise DamagedError(path, f"it does not hold {row['count']} records of type {entity}")
        records = table.gather(table.data, pa.binary())
        for key, record in zip(table.keys.to_pylist(), records.to_pylist(), strict=True):
            value = decode(path, record)
            _check_name(path, key, value)
            yield value


def _check_name(
    path: str, key: bytes, value: RepositoryCommit | RepositoryBranch | RepositoryTag
) -> None:
    """No two records may have one name: keys are unique, so names must match them."""
    name = value.id if isinstance(value, RepositoryCommit) else value.name
    if name.encode() != key:
        raise DamagedError(path, f"it has {name!r} in the place of {key!r}")


def _check_entity(trees: Trees, metarange_id: str, entity: str) -> None:
    """An empty kind still has a metarange: no id, or one of another kind, means a bad dump."""
    path = trees.namespace.table(metarange_id)
    if not metarange_id:
        raise DamagedError(path, f"a refs dump names no metarange of type {entity}")
    data = trees.files.read(metarange_id, meta=True)
    if read_sstable(path, data, SSTableType.METARANGES).properties.entity != entity:
        raise DamagedError(path, f"it does not hold records of type {entity}")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED = {1: 8, 5: 4}

ProtobufField = tuple[int, int | bytes]


def decode_commit(path: str, data: bytes) -> RepositoryCommit:
    """A commit; DamagedError if it is not one."""
    texts, numbers, parents, metadata = _sorted_out(path, data)
    try:
        return RepositoryCommit(
            id=texts[1].decode(),
            parents=tuple(parent.decode() for parent in parents),
            metarange_id=texts.get(5, b"").decode(),
            created=_moment(texts.get(4, b"")),
            committer=texts.get(2, b"").decode(),
            message=texts.get(3, b"").decode(errors="replace"),
            version=_small(numbers.get(8, 0)),
            generation=_small(numbers.get(9, 0)),
            metadata=dict(_pair(each) for each in metadata),
        )
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise DamagedError(path, f"a commit in it cannot be read: {error!r}") from None


def decode_branch(path: str, data: bytes) -> RepositoryBranch:
    """A branch; dumps do not say which ones are hidden."""
    texts, numbers, _, _ = _sorted_out(path, data)
    try:
        return RepositoryBranch(
            texts[1].decode(), texts[2].decode(), hidden=bool(numbers.get(5, 0))
        )
    except (KeyError, ValueError) as error:
        raise DamagedError(path, f"a branch in it cannot be read: {error!r}") from None


def decode_tag(path: str, data: bytes) -> RepositoryTag:
    """A tag."""
    texts, _, _, _ = _sorted_out(path, data)
    try:
        return RepositoryTag(texts[1].decode(), texts[2].decode())
    except (KeyError, ValueError) as error:
        raise DamagedError(path, f"a tag in it cannot be read: {error!r}") from None


def _sorted_out(
    path: str, data: bytes
) -> tuple[dict[int, bytes], dict[int, int], list[bytes], list[bytes]]:
    """The last text and the last number of each field, and all parents and pairs of a commit."""
    try:
        fields = list(_fields(data))
    except (IndexError, ValueError):
        raise DamagedError(path, "a record in it is not valid protobuf") from None
    texts = {number: value for number, value in fields if isinstance(value, bytes)}
    numbers = {number: value for number, value in fields if isinstance(value, int)}
    parents = [value for number, value in fields if number == 7 and isinstance(value, bytes)]
    pairs = [value for number, value in fields if number == 6 and isinstance(value, bytes)]
    return texts, numbers, parents, pairs


def _fields(data: bytes) -> Iterator[ProtobufField]:
    at = 0
    while at < len(data):
        key, at = uvarint(data, at)
        if key < 8:
            raise ValueError("no such field")
        if key & 7 == 0:
            number, at = uvarint(data, at)
            yield key >> 3, number
            continue
        size, at = uvarint(data, at) if key & 7 == 2 else (_FIXED.get(key & 7, len(data) + 1), at)
        if at + size > len(data):
            raise ValueError("a field beyond the end")
        if key & 7 == 2:
            yield key >> 3, data[at : at + size]
        at += size


def _moment(data: bytes) -> datetime:
    numbers = {number: value for number, value in _fields(data) if isinstance(value, int)}
    seconds = numbers.get(1, 0)
    seconds -= seconds >> 63 << 64  # numbers below zero have ten bytes
    return _EPOCH + timedelta(seconds=seconds, microseconds=numbers.get(2, 0) // 1000)


def _small(number: int) -> int:
    """A number that columns can hold; ValueError for one below zero, or that looks like one."""
    if number >> 63:
        raise ValueError(f"{number} has more than 63 bits")
    return number


def _pair(data: bytes) -> tuple[str, str]:
    texts = {number: value for number, value in _fields(data) if isinstance(value, bytes)}
    return texts.get(1, b"").decode(), texts.get(2, b"").decode()
