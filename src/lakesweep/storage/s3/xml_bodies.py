"""The XML bodies of S3: listing pages, bulk deletes and their results, errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.http_transport import count_of

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_CHARACTER_REFERENCES = {"\t": "&#9;", "\n": "&#10;"}


class BadAnswerError(ValueError):
    """A response that is truncated, malformed, or contradicts itself."""


@dataclass(frozen=True, slots=True)
class ListBucketResult:
    """A page of a listing as the server encoded it: keys and folders are not decoded yet.

    `columns` are size_bytes, modified and etag. `encoded` says whether the server declares the keys
    url-encoded. `doubtful_breaks` is set if a line feed may stand for a carriage return.
    """

    keys: list[str]
    folders: list[str]
    columns: tuple[pa.Array, pa.Array, pa.Array]
    encoded: bool
    token: str | None
    doubtful_breaks: bool


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error response; all empty if it is not XML."""

    code: str = ""
    message: str = ""
    region: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.code, self.message) if part)


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The keys that a bulk delete reports as deleted, and the errors of the others."""

    deleted: frozenset[str]
    errors: dict[str, ErrorBody] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object, or a delete marker; its key is still encoded."""

    key: str
    number: str
    is_latest: bool
    is_marker: bool
    size_bytes: int
    etag: str | None


def parse_page(body: bytes) -> ListBucketResult:
    """Parse a response to ListObjectsV2; BadAnswerError unless it is complete."""
    root, space = _parse(body, "ListBucketResult")
    keys = _texts(root.iter(f"{space}Key"))
    folders = _texts(root.iterfind(f"{space}CommonPrefixes/{space}Prefix"))
    count = len(root.findall(f"{space}Contents"))
    _check_count(root, space, len(folders), keys, count)
    return ListBucketResult(
        keys=keys,
        folders=folders,
        columns=(
            _sizes(_column(root, f"{space}Size", count)),
            _times(_column(root, f"{space}LastModified", count)),
            pc.utf8_trim(_column(root, f"{space}ETag", count), '"'),
        ),
        encoded=_text(root, f"{space}EncodingType") == "url",
        token=_token(root, space),
        doubtful_breaks=b"\r" in body,
    )


def parse_error(body: bytes) -> ErrorBody:
    """Parse an error; empty if the body is not one, as with HEAD and some proxies."""
    try:
        root, space = _parse(body, "Error")
    except BadAnswerError:
        return ErrorBody()
    return _error(root, space)


def parse_deletions(body: bytes) -> DeleteResult:
    """Parse a response to DeleteObjects; BadAnswerError unless it is complete."""
    root, space = _parse(body, "DeleteResult")
    return DeleteResult(
        frozenset(_texts(root.iterfind(f"{space}Deleted/{space}Key"))),
        {_text(error, f"{space}Key"): _error(error, space) for error in root.iter(f"{space}Error")},
    )


def parse_versions(body: bytes) -> list[ObjectVersion]:
    """Parse a response to ListObjectVersions, keeping its order."""
    root, space = _parse(body, "ListVersionsResult")
    tags = {f"{space}Version": False, f"{space}DeleteMarker": True}
    return [_version(one, space, is_marker=tags[one.tag]) for one in root if one.tag in tags]


def parse_status(body: bytes) -> str:
    """Parse a response to GetBucketVersioning, whose root element varies by server."""
    root = _document(body)
    space, _, local = root.tag.rpartition("}")
    if local == "Error":
        raise BadAnswerError("the response is an error")
    return _text(root, f"{space}}}Status" if space else "Status")


def parse_text(body: bytes, wanted: str) -> str:
    """One text of a small response, named as `Result/Name`; BadAnswerError if missing."""
    result, name = wanted.split("/")
    root, space = _parse(body, result)
    text = _text(root, f"{space}{name}")
    if not text:
        raise BadAnswerError(f"the response has no {name}")
    return text


def delete_body(keys: Sequence[str], etags: Sequence[str | None] | None = None) -> bytes:
    """The body of DeleteObjects for one or more keys that fit XML. Never names a version.

    With `etags`, objects that now have another etag are not deleted.
    """
    if etags is not None:
        objects = "".join(_to_delete(*pair) for pair in zip(keys, etags, strict=True))
        return f'<Delete xmlns="{_NAMESPACE}">{objects}</Delete>'.encode()
    # All keys are escaped in one pass. The separator is a character that XML cannot hold.
    escaped = escape("\0".join(keys), _CHARACTER_REFERENCES)
    objects = escaped.replace("\0", "</Key></Object><Object><Key>")
    return f'<Delete xmlns="{_NAMESPACE}"><Object><Key>{objects}</Key></Object></Delete>'.encode()


def complete_body(etags: Iterable[str]) -> bytes:
    """The body that completes a multipart upload of these parts, in this order."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for number, etag in enumerate(etags, start=1)
    )
    return (
        f'<CompleteMultipartUpload xmlns="{_NAMESPACE}">{parts}</CompleteMultipartUpload>'.encode()
    )


def _to_delete(key: str, etag: str | None) -> str:
    condition = "" if etag is None else f'<ETag>"{escape(etag)}"</ETag>'
    return f"<Object><Key>{escape(key, _CHARACTER_REFERENCES)}</Key>{condition}</Object>"


def _version(element: ET.Element, space: str, *, is_marker: bool) -> ObjectVersion:
    texts = (_text(element, f"{space}{name}") for name in ("Key", "VersionId", "IsLatest"))
    key, number, is_latest = texts
    size = _text(element, f"{space}Size") or "0"
    size_bytes = count_of(size)
    if not key or not number or size_bytes is None:
        raise BadAnswerError("the page has a version without a key, a number or a size")
    etag = _text(element, f"{space}ETag").strip('"') or None
    return ObjectVersion(key, number, is_latest == "true", is_marker, size_bytes, etag)


def _document(body: bytes) -> ET.Element:
    # No store declares a document type. Entities could make a small body large, or read files.
    if b"<!DOCTYPE" in body or b"\0" in body:
        raise BadAnswerError("the response declares a document type, or is not UTF-8")
    try:
        return ET.fromstring(body)  # noqa: S314 (expat itself bounds the growth of entities)
    except ET.ParseError as error:
        raise BadAnswerError(f"the response is not complete XML ({error})") from None


def _parse(body: bytes, name: str) -> tuple[ET.Element, str]:
    root = _document(body)
    space, _, local = root.tag.rpartition("}")
    if local != name:
        raise BadAnswerError(f"the response is <{local}>, not <{name}>")
    return root, f"{space}}}" if space else ""


def _texts(elements: Iterable[ET.Element]) -> list[str]:
    return [element.text or "" for element in elements]


def _text(parent: ET.Element, tag: str) -> str:
    return parent.findtext(tag) or ""


def _error(element: ET.Element, space: str) -> ErrorBody:
    names = ("Code", "Message", "Region")
    return ErrorBody(*(_text(element, f"{space}{name}") for name in names))


def _check_count(
    root: ET.Element, space: str, folders: int, keys: list[str], contents: int
) -> None:
    declared = _text(root, f"{space}KeyCount")
    # A page that contradicts its own count may have lost keys on the way: refuse it as a whole.
    if len(keys) != contents or "" in keys:
        raise BadAnswerError("the page has objects without a key")
    if declared and declared != str(contents + folders):
        raise BadAnswerError(f"the page says {declared} keys and has {contents + folders}")


def _token(root: ET.Element, space: str) -> str | None:
    truncated = _text(root, f"{space}IsTruncated")
    token = _text(root, f"{space}NextContinuationToken")
    if truncated not in ("true", "false") or (truncated == "true") != bool(token):
        raise BadAnswerError("the page does not say whether, or where, the listing continues")
    return token or None


def _column(root: ET.Element, tag: str, count: int) -> pa.Array:
    """The texts of one element of all objects; all null unless every object has it."""
    values = [element.text for element in root.iter(tag)]
    return pa.array(values, pa.string()) if len(values) == count else pa.nulls(count, pa.string())


def _sizes(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise BadAnswerError(f"the page has a bad size ({error})") from None


def _times(texts: pa.Array) -> pa.Array:
    wanted = pa.timestamp("us", tz="UTC")
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        pass
    try:  # A server that gives nanoseconds.
        return texts.cast(pa.timestamp("ns", tz="UTC")).cast(wanted, safe=False)
    except pa.ArrowInvalid as error:
        raise BadAnswerError(f"the page has a bad time ({error})") from None
