"""List a container page by page. A page is complete and exact, or an error."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UnavailableError
from lakesweep.storage.cursor import PageToken, TokenListRequest, next_page
from lakesweep.storage.http_transport import count_of
from lakesweep.storage.object_store import ENTRY_SCHEMA, ListingPage

#: The most that one page can have.
PAGE_ROWS = 5_000
_MODIFIED = ENTRY_SCHEMA.field("modified").type
_TIME = "%a, %d %b %Y %H:%M:%S GMT"


def list_page(
    request: TokenListRequest,
    cursor: PageToken | None,
    ask: Callable[[dict[str, str]], bytes],
) -> ListingPage:
    """One page; `ask` sends the parameters and returns the document."""
    root = _document(request.path, ask(_query(request, cursor)))
    blobs = [blob for blob in root.iterfind("Blobs/Blob") if not _is_folder(blob)]
    folders = [_name(each) for each in root.iterfind("Blobs/BlobPrefix")]
    keys = [_name(blob) for blob in blobs]
    request.check_names([*keys, *folders])
    entries = _entries(request.path, keys, blobs)
    token = root.findtext("NextMarker")
    last = max(keys, default=cursor.last if cursor else "")
    names = [*keys, *folders]
    return ListingPage(
        entries=request.entries_after(entries),
        folders=request.folders_after(folders),
        next=next_page(request.path, cursor, token, names, last) if token else None,
    )


def _query(request: TokenListRequest, cursor: PageToken | None) -> dict[str, str]:
    query = {"restype": "container", "comp": "list", "maxresults": str(PAGE_ROWS)}
    return query | request.filters() | ({} if cursor is None else {"marker": cursor.token})


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
