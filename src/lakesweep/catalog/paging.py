"""Pages of a listing. All pages of one listing show one and the same state.

A token names the commit that the first page was read from, and where to go on in it. It holds no
more than that, so it is good in every process, for as long as the commit is kept.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from lakesweep.errors import UsageError

T = TypeVar("T")

PAGE_SIZE = 100
MAX_PAGE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some entries of a listing; `token` asks for the next ones, and is None on the last page."""

    items: Sequence[T]
    token: str | None


class Position(msgspec.Struct, frozen=True, array_like=True):
    """What a token says: in which listing, of which commit, from which key on."""

    scope: str
    commit: int
    start: bytes


def write_token(position: Position) -> str:
    """The token of a position."""
    data = msgspec.msgpack.encode(position)
    checked = binascii.crc32(data).to_bytes(4, "big") + data
    return base64.urlsafe_b64encode(checked).decode().rstrip("=")


def read_token(token: str, scope: str) -> Position:
    """The position of a token; UsageError if it is none, or one of another listing."""
    wrong = UsageError("this is no page token of this listing", hint="list from the first page")
    try:
        checked = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        position = msgspec.msgpack.decode(checked[4:], type=Position)
    except (ValueError, msgspec.MsgspecError) as error:
        raise wrong from error
    if checked[:4] != binascii.crc32(checked[4:]).to_bytes(4, "big") or position.scope != scope:
        raise wrong
    return position


def check_page_size(size: int) -> None:
    """UsageError unless a page may have so many entries."""
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise UsageError(f"a page has 1 to {MAX_PAGE_SIZE:,} entries, not {size}")
