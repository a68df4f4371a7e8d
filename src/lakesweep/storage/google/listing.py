"""List a bucket page by page. A page is complete and exact, or an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import InexactKeyError, StorageError, UnavailableError
from lakesweep.storage.cursor import PageToken, next_page
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


@dataclass(frozen=True, slots=True)
class GoogleListRequest:
    """What to list in a bucket, whose addresses start with `base`."""

    base: str
    prefix: str
    one_level: bool
    after: str

    @property
    def path(self) -> str:
        return self.base + self.prefix

    def query(self, cursor: PageToken | None) -> dict[str, str]:
        """The parameters of one page."""
        query = {"maxResults": str(PAGE_ROWS), "fields": _FIELDS}
        if self.prefix:
            query["prefix"] = self.prefix
        if self.one_level:
            query["delimiter"] = "/"
        if self.after:
            query["startOffset"] = self._start
        if cursor is not None:
            query["pageToken"] = cursor.token
        return query

    @property
    def _start(self) -> str:
        """The first name to list: `after` itself, or the folder that it lies in.

        A folder counts as a name that sorts before all that is in it.
        """
        if not self.one_level or not self.after.startswith(self.prefix):
            return self.after
        name, slash, _ = self.after[len(self.prefix) :].partition("/")
        return self.prefix + name + slash


def list_page(
    request: GoogleListRequest,
    cursor: PageToken | None,
    ask: Callable[[dict[str, str]], bytes],
) -> ListingPage:
    """One page; `ask` sends the parameters and returns the document."""
    page = _parse(request.path, ask(request.query(cursor)))
    names = [item.name for item in page.items]
    _check_names(request, [*names, *page.prefixes])
    last = cursor.last if cursor else ""
    _check_order(request.path, last, names)
    token = page.token
    return ListingPage(
        entries=_after(_entries(request.path, names, page.items), request.after),
        folders=tuple(f for f in page.prefixes if _reaches_behind(f, request.after)),
        next=next_page(
            request.path, cursor, token, [*names, *page.prefixes], names[-1] if names else last
        )
        if token
        else None,
    )


def _parse(path: str, body: bytes) -> _Page:
    try:
        return msgspec.json.decode(body, type=_Page)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnavailableError(path, f"the response is not a page of a listing: {error}") from error


def _check_names(request: GoogleListRequest, names: list[str]) -> None:
    for name in names:
        if not name or not name.startswith(request.prefix):
            reason = f"was listed but does not start with {request.prefix!r}"
            raise InexactKeyError(request.base + name, reason)


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


def _after(entries: pa.RecordBatch, after: str) -> pa.RecordBatch:
    return entries.filter(pc.greater(entries.column("key"), after)) if after else entries


def _reaches_behind(folder: str, after: str) -> bool:
    """Whether a folder can have keys greater than `after`."""
    return folder > after or after.startswith(folder)
