"""The head of a reference: a commit object, and what it says of itself."""

from __future__ import annotations

import msgspec

#: How many commits before it a commit names.
TAIL_COMMITS = 20


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one key of a container: `action` is add, update, remove or rename.

    `before` is the key that it had, where it was renamed.
    """

    action: str
    key: bytes
    before: bytes | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all heads; a container adds its state, indexes among it, as fields of its own.

    `seq` counts from 1. `tail` are the ids of the commits before, nearest first. `committed_at` are
    microseconds that always grow along the log. `changes` are those of this commit alone.
    """

    seq: int = 0
    tail: tuple[int, ...] = ()
    committed_at: int = 0
    message: str = ""
    author: str = ""
    changes: tuple[Change, ...] = ()
