"""Conditional deletes on S3: an object that changed since it was listed must not be deleted.

Some servers silently treat a conditional delete as a plain one. So a server other than Amazon S3
is probed once, for bulk and for single deletes, with an object of our own.

A delete in a versioned bucket adds a delete marker on top of the object, and a second delete adds
another. The object is restored once all of them are removed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import unquote, unquote_plus
from uuid import uuid4

from lakesweep.errors import (
    LakesweepError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.conditional_deletes import find_etags, without_etags
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ObjectInfo,
    Outcome,
    check_is_expected,
)
from lakesweep.storage.s3.client import S3Client, ServerFeature, md5_of
from lakesweep.storage.s3.endpoint import S3Request
from lakesweep.storage.s3.errors import Operation, outcome_of, outcome_of_answer
from lakesweep.storage.s3.keys import fits_xml
from lakesweep.storage.s3.xml_bodies import (
    DeleteResult,
    ObjectVersion,
    delete_body,
    parse_deletions,
    parse_status,
    parse_versions,
)

_BULK, _SINGLE = "bulk", "single"
#: An etag that no object has.
_NO_ETAG = "0" * 32
_MOST_MARKERS = 1_000
_LONGEST_KEY_BYTES = 1_024


class S3Deletes:
    """The deletes of one bucket, in bulk or one request per key."""

    def __init__(self, client: S3Client, *, is_bulk: bool) -> None:
        self._client = client
        self._form = _BULK if is_bulk else _SINGLE
        known = True if client.is_amazon else None
        self._features = {_BULK: ServerFeature(known), _SINGLE: ServerFeature(known)}

    @property
    def are_verified(self) -> bool:
        """False only if the server is known to ignore the conditions of deletes."""
        return self._features[self._form].is_possible

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None
    ) -> Sequence[Deletion]:
        """One outcome for each key, in that order."""
        # Listings without etags need a HEAD first: only an etag makes a delete conditional.
        seen, outcomes = find_etags(self._client.info, without_etags(keys, expected))
        etags = {**_etags(keys, expected), **seen}
        left = [key for key in keys if key not in outcomes]
        bulk = [] if self._form == _SINGLE else _fit_for_bulk(left)
        if bulk:
            outcomes |= self._delete_bulk(bulk, self._honoured(_BULK, bulk, etags))
        single = [key for key in left if key not in outcomes]
        conditions = self._honoured(_SINGLE, single, etags)
        outcomes |= {key: self._delete_one(key, conditions.get(key)) for key in single}
        return [outcomes[key] for key in keys]

    def delete_seen(self, info: ObjectInfo) -> Deletion:
        """Delete an object if it has not changed; unconditionally if the server cannot check."""
        etags = self._honoured(_SINGLE, [info.key], {info.key: info.etag} if info.etag else {})
        return self._delete_one(info.key, etags.get(info.key))

    def remove_probe(self, probe: str) -> None:
        """Delete a probe object; an error if that fails, since nothing else would."""
        removed = self._delete_one(probe)
        if removed.outcome not in (Outcome.DELETED, Outcome.ABSENT):
            raise StorageError(self._client.base + probe, f"could not be removed: {removed.reason}")

    def _honoured(
        self, form: str, keys: Sequence[str], etags: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The etags that deletes may be conditional on; none if the server ignores them."""
        key = next((key for key in keys if key in etags), None)
        if key is None:
            return {}
        feature = self._features[form]
        return etags if feature.find(partial(self._probe_verifying, form, key)) else {}

    def _probe_verifying(self, form: str, key: str) -> bool:
        """Whether a wrong etag makes the server refuse a delete, and the right one does not."""
        probe = probe_beside(key)
        try:
            etag = self._client.put(probe, b"", {}).headers.get("etag", "").strip('"')
        except (ThrottledError, UnavailableError):
            raise
        except StorageError:
            return False
        try:
            # Both must hold. A server that ignores conditions deletes with the wrong etag; one that
            # refuses every condition would make all deletes fail.
            found = [self._try_delete(form, probe, condition) for condition in (_NO_ETAG, etag)]
        finally:
            self.remove_probe(probe)
        return found == [Outcome.CHANGED, Outcome.DELETED]

    def _try_delete(self, form: str, key: str, etag: str) -> Outcome:
        if form == _SINGLE:
            return self._delete_one(key, etag).outcome
        try:
            return self._delete_bulk([key], {key: etag})[key].outcome
        except (ThrottledError, UnavailableError):
            raise
        except StorageError:
            return Outcome.FAILED

    def _delete_bulk(self, keys: Sequence[str], etags: Mapping[str, str]) -> dict[str, Deletion]:
        body = delete_body(keys, [etags.get(key) for key in keys] if etags else None)
        headers = {"Content-MD5": md5_of(body), "Content-Type": "application/xml"}
        request = S3Request("POST", self._client.base, None, {"delete": ""}, headers, body)
        result = self._client.ask_xml(Operation.DELETE, request, parse_deletions)
        return {key: _outcome(key, result) for key in keys}

    def _delete_one(self, key: str, etag: str | None = None) -> Deletion:
        headers = {} if etag is None else {"If-Match": f'"{etag}"'}
        request = S3Request("DELETE", self._client.base + key, key, headers=headers)
        try:
            answer = self._client.send(request)
        except LakesweepError as error:
            return Deletion(key, Outcome.FAILED, str(error), isinstance(error, UnavailableError))
        if 200 <= answer.status < 300:
            return Deletion(key, Outcome.DELETED)
        return outcome_of_answer(key, request.path, answer)


def _etags(keys: Sequence[str], expected: Sequence[Expected | None] | None) -> Mapping[str, str]:
    pairs = zip(keys, expected or (), strict=expected is not None)
    return {key: one.etag for key, one in pairs if one is not None and one.etag is not None}


def probe_beside(key: str) -> str:
    """A key for a probe object, in the folder of `key` or in the nearest one where it fits.

    If it did not fit, the store would refuse it, and seem to know no conditions.
    """
    folder, name = key.rpartition("/")[0], f".lakesweep-probe-{uuid4().hex}"
    while len(f"{folder}/{name}".encode()) > _LONGEST_KEY_BYTES:
        folder = folder.rpartition("/")[0]
    return f"{folder}/{name}".removeprefix("/")


def _fit_for_bulk(keys: Sequence[str]) -> Sequence[str]:
    if all(keys) and fits_xml("\n".join(keys)):
        return keys
    return [key for key in keys if key and fits_xml(key)]


def _outcome(key: str, result: DeleteResult) -> Deletion:
    if key in result.errors:
        return outcome_of(key, result.errors[key])
    if key in result.deleted:
        return Deletion(key, Outcome.DELETED)
    # A key that the response does not mention may or may not be deleted: never report it as
    # deleted.
    return Deletion(key, Outcome.FAILED, "no outcome given", may_retry=True)


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
        removed: set[str] = set()
        while (marker := _marker_on_top(found)) is not None:
            if marker.number in removed or len(removed) >= _MOST_MARKERS:
                reason = "its delete markers stay, or others add new ones all the time"
                raise StorageError(path, reason, hint="check the server, and who deletes this key")
            self._remove(key, marker)
            removed.add(marker.number)
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
