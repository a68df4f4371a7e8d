"""The names of metadata files, and how their content is compressed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument

_CODEC = "write.metadata.compression-codec"
_FOLDER = "write.metadata.path"
_NUMBER = re.compile(r"(\d{1,9})-")
_EXTENSIONS: Mapping[str, str] = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}


def write_metadata_name(
    document: RawDocument, replaced: str | None, uuid: str, *, usual_codec: str = "none"
) -> str:
    """Where a document is written that replaces the file `replaced`.

    The number is one more than that of the replaced file; a name without one counts as none, as in
    Iceberg. Views are compressed unless their properties say otherwise.
    """
    properties = document.properties()
    folder = properties.get(_FOLDER) or f"{_location(document, replaced)}/metadata"
    number = _NUMBER.match((replaced or "").rpartition("/")[2])
    version = int(number[1]) + 1 if number else 0
    extension = _EXTENSIONS[metadata_codec(properties, usual_codec)]
    return f"{folder.rstrip('/')}/{version:05}-{uuid}{extension}"


def metadata_codec(properties: Mapping[str, str], usual: str = "none") -> str:
    """How the table's metadata files are compressed: `none` or `gzip`."""
    codec = properties.get(_CODEC, usual).lower()
    if codec not in _EXTENSIONS:
        raise InvalidUpdateError(
            f"{_CODEC} is {codec!r}, which Iceberg does not know",
            hint=f"set {_CODEC} to none or gzip",
        )
    return codec


def encode_file(document: RawDocument, path: str) -> bytes:
    """The content of a metadata file with this name."""
    data = document.encode()
    is_compressed = ".gz." in path.rpartition("/")[2] or path.endswith(".gz")
    return gzip.compress(data, compresslevel=6, mtime=0) if is_compressed else data


def _location(document: RawDocument, replaced: str | None) -> str:
    location: str | None = document.get("location", str | None)
    if location is None and replaced is None:
        raise InvalidUpdateError("a document without a location has no place for its file")
    if location is None:
        return str(replaced).rpartition("/metadata/")[0]
    return location.rstrip("/")
