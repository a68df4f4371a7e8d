"""Object versions: whether a bucket keeps them, and how a deleted object is restored.

A delete in a versioned bucket adds a delete marker on top of the object. A second delete adds
another one. The object is back once all of them are removed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from urllib.parse import unquote, unquote_plus

from lakesweep.errors import MissingError, StorageError, ThrottledError, UnavailableError
from lakesweep.storage.object_store import Expected, ObjectInfo, check_is_expected
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.errors import Operation
from lakesweep.storage.s3.keys import fits_xml
from lakesweep.storage.s3.transport import S3Request
from lakesweep.storage.s3.xml_bodies import ObjectVersion, parse_status, parse_versions


class BucketVersions:
    """The versions of one bucket."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        self._told: str | None = None
        self._asking = threading.Lock()

    def are_kept(self) -> bool:
        """Whether versioning is on. Where it is suspended, deletes may lose objects."""
        return self._status() == "Enabled"

    def were_kept(self) -> bool:
        """Whether versioning is on, or was: what it kept is there where it is suspended."""
        return self._status() in ("Enabled", "Suspended")

    def bring_back(self, key: str, expected: Expected | None) -> None:
        """Remove the delete markers on top of the newest version of exactly this key."""
        path = self._client.base + key
        found = self._of(key)
        if _marker_on_top(found) is None:
            raise MissingError(path, "is not deleted")
        newest = next((version for version in found if not version.is_marker), None)
        if newest is None:
            raise MissingError(path, "has no version that could come back")
        info = ObjectInfo(key, newest.size_bytes, None, newest.etag)
        check_is_expected(path, info, expected)
        while (marker := _marker_on_top(found)) is not None:
            self._remove(key, marker)
            found = self._of(key)

    def _status(self) -> str:
        """What the bucket said when it was first asked; an error leaves that to the next."""
        with self._asking:
            if self._told is None:
                self._told = self._ask_status()
        return self._told

    def _ask_status(self) -> str:
        request = S3Request("GET", self._client.base, query={"versioning": ""})
        try:
            return self._client.ask_xml(Operation.VERSIONING, request, parse_status)
        except (ThrottledError, UnavailableError):
            raise
        except StorageError:
            return ""  # it will not say; who keeps a copy then does too much, never too little

    def _of(self, key: str) -> Sequence[ObjectVersion]:
        """The versions of exactly this key, newest first, as many as one page holds.

        Keys come in order, so those that only begin with this one come behind it.
        """
        query = {"versions": "", "prefix": key}
        if not fits_xml(key):
            query["encoding-type"] = "url"
        request = S3Request("GET", self._client.base + key, query=query)
        listed = self._client.ask_xml(Operation.VERSIONS, request, parse_versions)
        return [version for version in listed if key in _readings(version.key, query)]

    def _remove(self, key: str, marker: ObjectVersion) -> None:
        query = {"versionId": marker.number}
        request = S3Request("DELETE", self._client.base + key, key, query)
        self._client.ask(Operation.UNDELETE, request)


def _marker_on_top(versions: Sequence[ObjectVersion]) -> ObjectVersion | None:
    return next((one for one in versions if one.is_latest and one.is_marker), None)


def _readings(listed: str, query: dict[str, str]) -> Sequence[str]:
    """The keys that a listed name may stand for.

    All of them begin with the key that was asked for, since the server chose them by it. So one
    that equals it in any spelling is that key.
    """
    if "encoding-type" not in query:
        return (listed,)
    return (listed, unquote(listed), unquote_plus(listed))
