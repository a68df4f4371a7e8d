"""List a bucket page by page. A page is complete and exact, or an error."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa

from lakesweep.decoding import typed_json
from lakesweep.errors import StorageError, UnavailableError
from lakesweep.storage.cursor import PageToken, TokenListRequest, next_page
from lakesweep.storage.http_transport import count_of
from lakesweep.storage.object_store import ENTRY_SCHEMA, ListingPage

#: The most that one page can have.
PAGE_ROWS = 1_000
_FIELDS = "items(name,size,updated,generation),prefixes,nextPageToken"
_MODIFIED = ENTRY_SCHEMA.field("modified").type


class _Item(msgspec.Struct, frozen=True):
    name: str
    size: str
    generation: str
    updated: str | None = None


class _Page(msgspec.Struct, frozen=True, rename={"token": "nextPageToken"}):
    items: list[_Item] = []
    prefixes: list[str] = []
    token: str = ""


def list_page(
    request: TokenListRequest,
    cursor: PageToken | None,
    ask: Callable[[dict[str, str]], bytes],
) -> ListingPage:
    """One page; `ask` sends the parameters and returns the document."""
    page = _parse(request.path, ask(_query(request, cursor)))
    names = [item.name for item in page.items]
    request.check_names([*names, *page.prefixes])
    last = cursor.last if cursor else ""
    _check_order(request.path, last, names)
    token = page.token
    return ListingPage(
        entries=request.entries_after(_entries(request.path, names, page.items)),
        folders=request.folders_after(page.prefixes),
        next=next_page(
            request.path, cursor, token, [*names, *page.prefixes], names[-1] if names else last
        )
        if token
        else None,
    )


def _query(request: TokenListRequest, cursor: PageToken | None) -> dict[str, str]:
    start = {"startOffset": _start(request)} if request.after else {}
    next_ = {} if cursor is None else {"pageToken": cursor.token}
    return {"maxResults": str(PAGE_ROWS), "fields": _FIELDS} | request.filters() | start | next_


def _start(request: TokenListRequest) -> str:
    """The first name to list: `after` itself, or the folder that it lies in.

    A folder counts as a name that sorts before all that is in it.
    """
    prefix, after = request.prefix, request.after
    if not request.one_level or not after.startswith(prefix):
        return after
    name, slash, _ = after[len(prefix) :].partition("/")
    return prefix + name + slash


def _parse(path: str, body: bytes) -> _Page:
    try:
        return typed_json(body, _Page)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnavailableError(path, f"the response is not a page of a listing: {error}") from error


def _check_order(path: str, last: str, names: list[str]) -> None:
    """Key ranges lose keys in a listing without order, so such a server is refused."""
    # Python compares code points, whose order is that of UTF-8.
    for name in names:
        if name <= last:
            raise StorageError(path, f"the listing is not in order: {name!r} comes after {last!r}")
        last = name


def _entries(path: str, names: list[str], items: list[_Item]) -> pa.RecordBatch:
    sizes = [count_of(item.size) for item in items]
    if None in sizes or any(count_of(item.generation) is None for item in items):
        raise UnavailableError(path, "the page has an object without a size or generation")
    columns = [
        pa.array(names, pa.string()),
        pa.array(sizes, pa.int64()),
        _times([item.updated for item in items]),
        pa.array([item.generation for item in items], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)


def _times(texts: list[str | None]) -> pa.Array:
    try:
        return pa.array(texts, pa.string()).cast(_MODIFIED)
    except pa.ArrowInvalid:
        # A time that cannot be read is unknown, and what has no known age is kept.
        return pa.array([time_of(text) for text in texts], _MODIFIED)


def time_of(text: str | None) -> pa.Scalar:
    """A time of the service; null if there is none, or none that can be read."""
    try:
        return pa.scalar(text, pa.string()).cast(_MODIFIED)
    except pa.ArrowInvalid:
        return pa.scalar(None, _MODIFIED)
