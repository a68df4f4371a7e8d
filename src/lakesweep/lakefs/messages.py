"""Records of protobuf that there are few of: what a refs dump says of commits, branches, tags."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lakesweep.errors import DamagedError
from lakesweep.lakefs.blocks import uvarint
from lakesweep.lakefs.refs import Branch, Commit, Tag

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED = {1: 8, 5: 4}

Field = tuple[int, int | bytes]


def decode_commit(path: str, data: bytes) -> Commit:
    """A commit; DamagedError for what is none."""
    texts, numbers, parents, metadata = _sorted_out(path, data)
    try:
        return Commit(
            id=texts[1].decode(),
            parents=tuple(parent.decode() for parent in parents),
            metarange_id=texts.get(5, b"").decode(),
            created=_moment(texts.get(4, b"")),
            committer=texts.get(2, b"").decode(),
            message=texts.get(3, b"").decode(errors="replace"),
            version=numbers.get(8, 0),
            generation=numbers.get(9, 0),
            metadata=dict(_pair(each) for each in metadata),
        )
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise DamagedError(path, f"a commit in it cannot be read: {error!r}") from None


def decode_branch(path: str, data: bytes) -> Branch:
    """A branch; dumps do not say which ones are hidden."""
    texts, numbers, _, _ = _sorted_out(path, data)
    try:
        return Branch(texts[1].decode(), texts[2].decode(), hidden=bool(numbers.get(5, 0)))
    except (KeyError, ValueError) as error:
        raise DamagedError(path, f"a branch in it cannot be read: {error!r}") from None


def decode_tag(path: str, data: bytes) -> Tag:
    """A tag."""
    texts, _, _, _ = _sorted_out(path, data)
    try:
        return Tag(texts[1].decode(), texts[2].decode())
    except (KeyError, ValueError) as error:
        raise DamagedError(path, f"a tag in it cannot be read: {error!r}") from None


def _sorted_out(
    path: str, data: bytes
) -> tuple[dict[int, bytes], dict[int, int], list[bytes], list[bytes]]:
    """The last text and the last number of each field, and all parents and pairs of a commit."""
    try:
        fields = list(_fields(data))
    except (IndexError, ValueError):
        raise DamagedError(path, "a record in it is not in the format of protobuf") from None
    texts = {number: value for number, value in fields if isinstance(value, bytes)}
    numbers = {number: value for number, value in fields if isinstance(value, int)}
    parents = [value for number, value in fields if number == 7 and isinstance(value, bytes)]
    pairs = [value for number, value in fields if number == 6 and isinstance(value, bytes)]
    return texts, numbers, parents, pairs


def _fields(data: bytes) -> Iterator[Field]:
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


def _pair(data: bytes) -> tuple[str, str]:
    texts = {number: value for number, value in _fields(data) if isinstance(value, bytes)}
    return texts.get(1, b"").decode(), texts.get(2, b"").decode()
