"""List a container page by page. A page is complete and exact, or an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import InexactKeyError, UnavailableError
from lakesweep.storage.cursor import PageToken, next_page
from lakesweep.storage.http_transport import count_of
from lakesweep.storage.object_store import ENTRY_SCHEMA, ListingPage

#: The most that one page can have.
PAGE_ROWS = 5_000
_MODIFIED = ENTRY_SCHEMA.field("modified").type
_TIME = "%a, %d %b %Y %H:%M:%S GMT"


@dataclass(frozen=True, slots=True)
class AzureListRequest:
    """What to list in a container, whose addresses start with `base`."""

    base: str
    prefix: str
    one_level: bool
    after: str

    @property
    def path(self) -> str:
        return self.base + self.prefix

    def query(self, cursor: PageToken | None) -> dict[str, str]:
        """The parameters of one page."""
        query = {"restype": "container", "comp": "list", "maxresults": str(PAGE_ROWS)}
        if self.prefix:
            query["prefix"] = self.prefix
        if self.one_level:
            query["delimiter"] = "/"
        if cursor is not None:
            query["marker"] = cursor.token
        return query


def list_page(
    request: AzureListRequest,
    cursor: PageToken | None,
    ask: Callable[[dict[str, str]], bytes],
) -> ListingPage:
    """One page; `ask` sends the parameters and returns the document."""
    root = _document(request.path, ask(request.query(cursor)))
    blobs = [blob for blob in root.iterfind("Blobs/Blob") if not _is_folder(blob)]
    folders = [_name(each) for each in root.iterfind("Blobs/BlobPrefix")]
    keys = [_name(blob) for blob in blobs]
    _check_names(request, [*keys, *folders])
    entries = _entries(request.path, keys, blobs)
    token = root.findtext("NextMarker")
    last = max(keys, default=cursor.last if cursor else "")
    names = [*keys, *folders]
    return ListingPage(
        entries=_after(entries, request.after),
        folders=tuple(f for f in folders if f > request.after or request.after.startswith(f)),
        next=next_page(request.path, cursor, token, names, last) if token else None,
    )


def _document(path: str, body: bytes) -> ET.Element:
    # No store declares a document type. Entities could make a small body large.
    if b"<!DOCTYPE" in body or b"\0" in body:
        raise UnavailableError(path, "the listing declares a document type, or is not UTF-8")
    try:
        root = ET.fromstring(body)  # noqa: S314 (it has no entities)
    except ET.ParseError as error:
        raise UnavailableError(path, f"the listing is not complete XML ({error})") from error
    # A page that does not say whether it is the last may have been cut short.
    if root.tag != "EnumerationResults" or root.find("NextMarker") is None:
        raise UnavailableError(path, "the response is not a page of a listing")
    return root


def _name(element: ET.Element) -> str:
    """The name of a blob or folder; names that XML cannot carry come percent-encoded."""
    found = element.find("Name")
    text = "" if found is None or found.text is None else found.text
    is_encoded = found is not None and found.get("Encoded") == "true"
    return unquote(text, errors="strict") if is_encoded else text


def _is_folder(blob: ET.Element) -> bool:
    """Whether it is a folder of an account that has real ones, not an object."""
    return blob.findtext("Properties/ResourceType") == "directory"


def _check_names(request: AzureListRequest, names: list[str]) -> None:
    for name in names:
        if not name or not name.startswith(request.prefix):
            reason = f"was listed but does not start with {request.prefix!r}"
            raise InexactKeyError(request.base + name, reason)


def _entries(path: str, keys: list[str], blobs: list[ET.Element]) -> pa.RecordBatch:
    sizes = [count_of(blob.findtext("Properties/Content-Length")) for blob in blobs]
    if None in sizes:
        raise UnavailableError(path, "the page has an object without a size")
    times = pa.array([blob.findtext("Properties/Last-Modified") for blob in blobs], pa.string())
    etags = pa.array([blob.findtext("Properties/Etag") for blob in blobs], pa.string())
    # A time that cannot be read is unknown, and what has no known age is kept.
    moments = pc.strptime(times, format=_TIME, unit="us", error_is_null=True)
    columns = [
        pa.array(keys, pa.string()),
        pa.array(sizes, pa.int64()),
        moments.cast(_MODIFIED),
        pc.utf8_trim(etags, '"'),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)


def _after(entries: pa.RecordBatch, after: str) -> pa.RecordBatch:
    return entries.filter(pc.greater(entries.column("key"), after)) if after else entries
