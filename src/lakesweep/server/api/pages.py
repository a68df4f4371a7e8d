"""Lists in pages: a limit, and a cursor that says where the next page begins.

A cursor names the last entry of a page. Entries that come or go in between shift nothing: each is
seen once, as long as it exists and its place in the order stays.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from itertools import dropwhile, islice
from typing import Annotated, TypeVar

import msgspec

from lakesweep.decoding import typed_msgpack
from lakesweep.errors import UsageError

Entry = TypeVar("Entry")
#: The place of an entry in its list, as texts and numbers.
Place = tuple[str | int, ...]

Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="At most this many entries.")]
Cursor = Annotated[
    str, msgspec.Meta(max_length=2_000, description="The `next` of the page before.")
]


class ListRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which part of a list to answer with."""

    limit: Limit = 100
    cursor: Cursor | None = None


def page_of(
    entries: Iterable[Entry],
    request: ListRequest,
    place: Callable[[Entry], Place],
    *,
    descending: bool = False,
) -> tuple[tuple[Entry, ...], str | None]:
    """The entries of a page, and the cursor of the next one if there is one."""
    rest: Iterable[Entry] = entries
    if request.cursor is not None:
        last = _decode(request.cursor)

        def is_before(entry: Entry) -> bool:
            try:
                return place(entry) >= last if descending else place(entry) <= last
            except TypeError:
                raise _wrong() from None

        rest = dropwhile(is_before, entries)
    found = tuple(islice(rest, request.limit + 1))
    if len(found) <= request.limit:
        return found, None
    page = found[:-1]
    return page, _encode(place(page[-1]))


def _encode(place: Place) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(place)).decode().rstrip("=")


def _decode(cursor: str) -> Place:
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        return typed_msgpack(data, tuple[str | int, ...])
    except (ValueError, msgspec.MsgspecError):
        raise _wrong() from None


def _wrong() -> UsageError:
    return UsageError("the cursor is not one of this list", hint="list again from the first page")
