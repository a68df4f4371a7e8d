"""Object versions: whether a bucket keeps them, and how a deleted object is restored.

A delete in a versioned bucket adds a delete marker on top of the object, and a second delete adds
another. The object is restored once all of them are removed.
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
        self._known_status: str | None = None
        self._lock = threading.Lock()

    def are_kept(self) -> bool:
        """Whether versioning is enabled. While it is suspended, deletes may lose objects."""
        return self._status() == "Enabled"

    def were_kept(self) -> bool:
        """Whether versioning is or was enabled: versions survive its suspension."""
        return self._status() in ("Enabled", "Suspended")

    def restore(self, key: str, expected: Expected | None) -> None:
        """Remove the delete markers on top of the newest version of exactly this key."""
        path = self._client.base + key
        found = self._of(key)
        if _marker_on_top(found) is None:
            raise MissingError(path, "is not deleted")
        newest = next((version for version in found if not version.is_marker), None)
        if newest is None:
            raise MissingError(path, "has no version left to restore")
        info = ObjectInfo(key, newest.size_bytes, None, newest.etag)
        # Compare before removing any marker: uncovering another object's content under this key
        # would
        # be worse than not restoring.
        check_is_expected(path, info, expected)
        # Look again after each removal: a page may not hold all markers, and others may add or
        # remove some.
        while (marker := _marker_on_top(found)) is not None:
            self._remove(key, marker)
            found = self._of(key)

    def _status(self) -> str:
        """The bucket's first reply; after an error, the next caller asks again."""
        with self._lock:
            if self._known_status is None:
                self._known_status = self._ask_status()
        return self._known_status

    def _ask_status(self) -> str:
        request = S3Request("GET", self._client.base, query={"versioning": ""})
        try:
            return self._client.ask_xml(Operation.VERSIONING, request, parse_status)
        except (ThrottledError, UnavailableError):
            raise
        except StorageError:
            return ""  # unknown counts as unversioned: then a copy is kept as well

    def _of(self, key: str) -> Sequence[ObjectVersion]:
        """The versions of exactly this key, newest first, as many as one page holds.

        Keys are listed in order, so keys that merely start with this one come after it.
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

    All of them start with the requested key, since the server selected them by it. So a name that
    equals it in any decoding is that key.
    """
    if "encoding-type" not in query:
        return (listed,)
    return (listed, unquote(listed), unquote_plus(listed))
