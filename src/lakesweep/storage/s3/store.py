"""S3 and compatible servers as an object store. Every key is exact.

A delete never names a version, except that of a delete marker. In a versioned bucket it adds
a delete marker on top of the object; the versions below stay until a lifecycle rule or an
administrator removes them. See `versions`.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import partial
from uuid import uuid4

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    LakesweepError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.parallel import map_ordered
from lakesweep.storage.moves import move_by_copy, object_exists
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_expected,
    check_keys,
    is_expected,
    micros_of,
)
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.client import S3Client, ServerFeature
from lakesweep.storage.s3.errors import (
    PRECONDITION_FAILED,
    Operation,
    error_of,
    outcome_of,
    outcome_of_answer,
)
from lakesweep.storage.s3.keys import fits_xml
from lakesweep.storage.s3.listing import Lister
from lakesweep.storage.s3.multipart_copy import MultipartCopy, copy_source
from lakesweep.storage.s3.transport import S3Request, S3Response
from lakesweep.storage.s3.versions import BucketVersions
from lakesweep.storage.s3.xml_bodies import DeleteResult, delete_body, parse_deletions, parse_text

_DELETE_BATCH = 1000
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_CREATE_ONLY = {"If-None-Match": "*"}
_BULK, _SINGLE = "bulk", "single"
#: An etag that no object has.
_NO_ETAG = "0" * 32
#: So many objects are looked at at once before a delete that rests on no etag of a listing.
_LOOKERS = 16
_SECOND = 1_000_000


class S3Store:
    """One bucket. Sends each request once: trying again is the business of a wrapper."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._options = options
        self._client = S3Client(bucket, options)
        self._lister = Lister(self._client)
        known = True if self._client.is_amazon else None
        self._creates = ServerFeature(known)
        self._verifies = {_BULK: ServerFeature(known), _SINGLE: ServerFeature(known)}
        self._versions = BucketVersions(self._client)

    def __reduce__(self) -> tuple[type[S3Store], tuple[str, StorageOptions]]:
        return S3Store, (self._client.bucket, self._options)

    @property
    def base(self) -> str:
        """What stands before a key in a full address."""
        return self._client.base

    @property
    def capabilities(self) -> StorageCapabilities:
        """What is known by now: a store that turns out to do less than Amazon's says so here."""
        return StorageCapabilities(
            delete_batch=min(self._options.delete_batch or _DELETE_BATCH, _DELETE_BATCH),
            ordered=self._lister.ordered,
            write_new=self._creates.is_possible,
            verified_deletes=self._verifies[self._form].is_possible,
        )

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page of the objects below `prefix`.

        A store that breaks the order of keys loses `capabilities.ordered`; where `after` relied
        on that order, UnsupportedError is raised.
        """
        return self._lister.page(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        """What the store says of the object, or MissingError."""
        return _info(key, self._head(key))

    def read(self, key: str) -> bytes:
        """The whole object."""
        return self._client.ask(Operation.READ, S3Request("GET", self.base + key, key)).body

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only where the object ends before."""
        if length == 0:
            return b""
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        request = S3Request("GET", self.base + key, key, headers=headers)
        answer = self._client.send(request)
        if answer.status == 416:
            return b""
        if not 200 <= answer.status < 300:
            raise error_of(Operation.READ, request.path, answer)
        _check_range(request, answer, start, length)
        return answer.body

    def write(self, key: str, data: bytes) -> None:
        """Create or replace the object."""
        self._put(key, data, {})

    def write_new(self, key: str, data: bytes) -> None:
        """Create the object if it is absent, atomically; ExistsError where it is there.

        Some servers take a conditional write for a plain one and say nothing. So a store that is
        not Amazon's is first tried out, once, with an object of our own beside the key.
        """
        if not self._creates.find(partial(self._probe_creating, key)):
            raise UnsupportedError(self.base + key, "this store has no conditional writes")
        self._put(key, data, _CREATE_ONLY)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete distinct keys in one bulk request; one outcome each, in that order.

        Keys that XML cannot carry, and all keys of a store whose `delete_batch` is 1, go by
        requests of their own. Objects are compared by their etags. Some servers take a conditional
        delete for a plain one, so a store that is not Amazon's is first tried out, as for
        `write_new`; one that fails is given plain deletes.
        """
        check_keys(keys, self.capabilities.delete_batch)
        check_expected(keys, expected)
        seen, outcomes = self._look_at(_without_etags(keys, expected))
        etags = {**_etags(keys, expected), **seen}
        left = [key for key in keys if key not in outcomes]
        bulk = [] if self._form == _SINGLE else _fit_for_bulk(left)
        if bulk:
            outcomes |= self._delete_bulk(bulk, self._honoured(_BULK, bulk, etags))
        single = [key for key in left if key not in outcomes]
        told = self._honoured(_SINGLE, single, etags)
        outcomes |= {key: self._delete_one(key, told.get(key)) for key in single}
        return [outcomes[key] for key in keys]

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket, replacing the target."""
        self._copy(source, target, {})

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Copy the object as it is just now, look at the copy, and delete what was copied.

        The copy has the storage class of the object, and is as new as the move.
        """
        head = self._head(source)
        info = _info(source, head)
        move_by_copy(
            self,
            info,
            target,
            expected,
            copy=partial(self._copy_new, source, target, head),
            remove=partial(self._delete_seen, info),
        )

    def keeps_versions(self) -> bool:
        """Whether versioning is on."""
        return self._versions.are_kept()

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        """Remove the delete markers on top of the object."""
        if not self._versions.were_kept():
            raise UnsupportedError(self.base + key, "this bucket keeps no versions")
        self._versions.bring_back(key, expected)

    def _look_at(
        self, told: Mapping[str, Expected]
    ) -> tuple[Mapping[str, str], dict[str, Deletion]]:
        """The etags of objects that are what was listed, without etags; outcomes of the others."""
        if not told:
            return {}, {}
        found = list(map_ordered(lambda key: self._look(key, told[key]), told, workers=_LOOKERS))
        etags = {key: one for key, one in zip(told, found, strict=True) if isinstance(one, str)}
        return etags, {one.key: one for one in found if isinstance(one, Deletion)}

    def _look(self, key: str, told: Expected) -> str | Deletion | None:
        try:
            info = self.head(key)
        except MissingError:
            return Deletion(key, Outcome.ABSENT)
        except LakesweepError as error:
            return Deletion(key, Outcome.FAILED, str(error), isinstance(error, UnavailableError))
        if not _is_as_told(info, told):
            return Deletion(key, Outcome.CHANGED, CHANGED)
        return info.etag

    def _copy(
        self,
        source: str,
        target: str,
        conditions: Mapping[str, str],
        head: S3Response | None = None,
    ) -> None:
        """Copy an object, as `head` told of it if that is given."""
        headers = {
            "x-amz-copy-source": copy_source(self._client.bucket, source),
            **({} if head is None else _as_told(head)),
            **conditions,
        }
        request = S3Request("PUT", self.base + target, target, headers=headers)
        parse = partial(parse_text, wanted="CopyObjectResult/ETag")
        try:
            self._client.ask_xml(Operation.COPY, request, parse)
        except MissingError as error:
            raise MissingError(self.base + source, error.reason, hint=error.hint) from error
        except StorageError as error:
            if not _is_too_large(error):
                raise
            parts = MultipartCopy(self._client, source, target, head or self._head(source))
            replace(parts, conditions=conditions).run()

    def _copy_new(self, source: str, target: str, head: S3Response) -> None:
        """Copy to a key that was free a moment ago, where the server can, only if it still is."""
        try:
            self._copy(source, target, _CREATE_ONLY, head)
        except UnsupportedError:
            self._copy(source, target, {}, head)
        except StorageError as error:
            if not error.reason.startswith(PRECONDITION_FAILED):
                raise
            if object_exists(self, target):
                raise ExistsError(self.base + target, "is already there") from error
            raise ChangedError(self.base + source, CHANGED) from error

    def _head(self, key: str) -> S3Response:
        answer = self._client.ask(Operation.READ, S3Request("HEAD", self.base + key, key))
        if not answer.headers.get("content-length", "").isdecimal():
            raise UnavailableError(self.base + key, "the answer gives no size")
        return answer

    def _put(self, key: str, data: bytes, headers: Mapping[str, str]) -> S3Response:
        signed = {"Content-MD5": _md5(data), **headers}
        request = S3Request("PUT", self.base + key, key, headers=signed, body=data)
        return self._client.ask(Operation.WRITE, request)

    def _honoured(
        self, form: str, keys: Sequence[str], etags: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The etags that deletes of these keys may rest on: none where the server ignores them."""
        key = next((key for key in keys if key in etags), None)
        if key is None:
            return {}
        habit = self._verifies[form]
        return etags if habit.find(partial(self._probe_verifying, form, key)) else {}

    def _probe_verifying(self, form: str, key: str) -> bool:
        """Whether a delete with a wrong etag is refused, and one with the right etag is not."""
        probe = _probe_beside(key)
        try:
            etag = self._put(probe, b"", {}).headers.get("etag", "").strip('"')
        except (ThrottledError, UnavailableError):
            raise
        except StorageError:
            return False
        try:
            found = [self._try_delete(form, probe, told) for told in (_NO_ETAG, etag)]
        finally:
            self._remove_probe(probe)
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

    @property
    def _form(self) -> str:
        """How keys are deleted that are fit for it."""
        batch = self._options.delete_batch
        return _SINGLE if batch == 1 else _BULK

    def _probe_creating(self, key: str) -> bool:
        """Whether a second conditional write of one object is refused, as it must be."""
        probe = _probe_beside(key)
        try:
            self._put(probe, b"", _CREATE_ONLY)
        except UnsupportedError:
            return False
        try:
            self._put(probe, b"", _CREATE_ONLY)
        except ExistsError:
            return True
        except UnsupportedError:
            return False
        else:
            return False
        finally:
            self._remove_probe(probe)

    def _remove_probe(self, probe: str) -> None:
        removed = self._delete_one(probe)
        if removed.outcome not in (Outcome.DELETED, Outcome.ABSENT):
            raise StorageError(self.base + probe, f"could not be removed again: {removed.reason}")

    def _delete_bulk(self, keys: Sequence[str], etags: Mapping[str, str]) -> dict[str, Deletion]:
        body = delete_body(keys, [etags.get(key) for key in keys] if etags else None)
        headers = {"Content-MD5": _md5(body), "Content-Type": "application/xml"}
        request = S3Request("POST", self.base, None, {"delete": ""}, headers, body)
        result = self._client.ask_xml(Operation.DELETE, request, parse_deletions)
        return {key: _outcome(key, result) for key in keys}

    def _delete_seen(self, info: ObjectInfo) -> Deletion:
        """Delete an object that is still what it was; where the server cannot, whatever it is."""
        etags = self._honoured(_SINGLE, [info.key], {info.key: info.etag} if info.etag else {})
        return self._delete_one(info.key, etags.get(info.key))

    def _delete_one(self, key: str, etag: str | None = None) -> Deletion:
        headers = {} if etag is None else {"If-Match": f'"{etag}"'}
        request = S3Request("DELETE", self.base + key, key, headers=headers)
        try:
            answer = self._client.send(request)
        except LakesweepError as error:
            return Deletion(key, Outcome.FAILED, str(error), isinstance(error, UnavailableError))
        if 200 <= answer.status < 300:
            return Deletion(key, Outcome.DELETED)
        return outcome_of_answer(key, request.path, answer)


def _md5(data: bytes) -> str:
    return b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _info(key: str, head: S3Response) -> ObjectInfo:
    told = head.headers.get("last-modified")
    return ObjectInfo(
        key=key,
        size_bytes=int(head.headers["content-length"]),
        modified=parsedate_to_datetime(told) if told else None,
        etag=head.headers["etag"].strip('"') if "etag" in head.headers else None,
    )


def _as_told(head: S3Response) -> dict[str, str]:
    """What a copy asks for so that it gets the very object of this answer, as it is stored."""
    names = {"etag": "x-amz-copy-source-if-match", "x-amz-storage-class": "x-amz-storage-class"}
    return {names[name]: head.headers[name] for name in names if name in head.headers}


def _etags(keys: Sequence[str], expected: Sequence[Expected | None] | None) -> Mapping[str, str]:
    pairs = zip(keys, expected or (), strict=expected is not None)
    return {key: one.etag for key, one in pairs if one is not None and one.etag is not None}


def _without_etags(
    keys: Sequence[str], expected: Sequence[Expected | None] | None
) -> Mapping[str, Expected]:
    """What was listed of objects without their etags; who knows no time has listed nothing."""
    pairs = zip(keys, expected or (), strict=expected is not None)
    return {
        key: one
        for key, one in pairs
        if one is not None and one.etag is None and one.modified_micros is not None
    }


def _is_as_told(info: ObjectInfo, told: Expected) -> bool:
    """Whether an object is what was listed, its time taken to the second, as answers give it."""
    if told.modified_micros is None or info.modified is None:
        return is_expected(info, told)
    second = told.modified_micros // _SECOND == micros_of(info.modified) // _SECOND
    return second and is_expected(info, told._replace(modified_micros=None))


def _probe_beside(key: str) -> str:
    return f"{key.rpartition('/')[0]}/.lakesweep-probe-{uuid4().hex}".removeprefix("/")


def _fit_for_bulk(keys: Sequence[str]) -> Sequence[str]:
    if all(keys) and fits_xml("\n".join(keys)):
        return keys
    return [key for key in keys if key and fits_xml(key)]


def _outcome(key: str, result: DeleteResult) -> Deletion:
    if key in result.errors:
        return outcome_of(key, result.errors[key])
    if key in result.deleted:
        return Deletion(key, Outcome.DELETED)
    return Deletion(key, Outcome.FAILED, "no outcome given", may_retry=True)


def _check_range(request: S3Request, answer: S3Response, start: int, length: int) -> None:
    """The status is no help: some servers send a part of an object with status 200."""
    told = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    if told is None:
        raise UnavailableError(request.path, "the answer does not say which range it holds")
    first, last, size = (int(number) for number in told.groups())
    if (first, last) != (start, min(start + length, size) - 1):
        raise UnavailableError(
            request.path, f"bytes {first}-{last} came instead of those asked for"
        )
    if len(answer.body) != last - first + 1:
        raise UnavailableError(request.path, "the answer is not as long as its range")


def _is_too_large(error: StorageError) -> bool:
    """Whether one request cannot copy an object of this size (5 GiB on S3)."""
    return error.reason.startswith(("EntityTooLarge", "InvalidRequest")) and (
        "larger than the maximum" in error.reason or "EntityTooLarge" in error.reason
    )
