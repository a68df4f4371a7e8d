"""Reading commits of any type, also of those that this program does not know."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lakesweep.errors import WrongTypeError
from lakesweep.store.commit import Commit
from lakesweep.store.objects import Objects, Stored
from lakesweep.store.types import UnknownObject

# What else the head of a container holds is skipped.
_decoder = msgspec.msgpack.Decoder(Commit)


def fetch_commits(objects: Objects, ids: Sequence[int]) -> Sequence[Stored[Commit] | None]:
    """The commits of these ids, in their order; None for each that is missing.

    One of an unknown type comes as a bare Commit, which is good for reading only. WrongTypeError if
    an object is no commit.
    """
    found = objects.fetch_many(ids, object)
    return [None if stored is None else _as_commit(stored) for stored in found]


def _as_commit(stored: Stored[object]) -> Stored[Commit]:
    value = stored.value
    if isinstance(value, UnknownObject):
        value = _decode(value)
    if not isinstance(value, Commit) or value.seq < 1:
        raise WrongTypeError(f"object {stored.id} is no commit")
    return Stored(stored.id, value, stored.created_at, stored.parts, stored.token)


def _decode(unknown: UnknownObject) -> object:
    try:
        return _decoder.decode(unknown.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return unknown
