"""Commit objects, and how to read them even if their type is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lakesweep.decoding import msgpack_decoder
from lakesweep.errors import WrongTypeError
from lakesweep.store.objects.object_types import UnknownObject
from lakesweep.store.objects.objects import Objects, Stored

#: The number of previous commits that a commit names.
TAIL_COMMITS = 20


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of one key of a container: `action` is add, update, remove or rename.

    `before` is the previous key, if it was renamed.
    """

    action: str
    key: bytes
    before: bytes | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all heads; a container adds its state, including indexes, as more fields.

    `seq` counts from 1. `tail` are the ids of the previous commits, nearest first. `committed_at`
    are microseconds that always grow along the log. `changes` are those of this commit alone.
    """

    seq: int = 0
    tail: tuple[int, ...] = ()
    committed_at: int = 0
    message: str = ""
    author: str = ""
    changes: tuple[Change, ...] = ()


# Other fields of a container's head are skipped.
_decoder = msgpack_decoder(Commit)


def fetch_commits(objects: Objects, ids: Sequence[int]) -> Sequence[Stored[Commit] | None]:
    """The commits of these ids, in order; None for each missing one.

    A commit of an unknown type is returned as a plain Commit, for reading only. WrongTypeError if
    an object is not a commit.
    """
    found = objects.fetch_many(ids, object)
    return [None if stored is None else _as_commit(stored) for stored in found]


def _as_commit(stored: Stored[object]) -> Stored[Commit]:
    value = stored.value
    if isinstance(value, UnknownObject):
        value = _decode(value)
    if not isinstance(value, Commit) or value.seq < 1:
        raise WrongTypeError(f"object {stored.id} is not a commit")
    return Stored(stored.id, value, stored.created_at, stored.parts, stored.token)


def _decode(unknown: UnknownObject) -> object:
    try:
        return _decoder.decode(unknown.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return unknown
