"""S3 and compatible servers as an object store. Every key is exact.

A delete never names a version, except that of a delete marker. In a versioned bucket it adds
a delete marker on top of the object; the versions below stay until a lifecycle rule or an
administrator removes them. See `deletes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    MissingError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.http_transport import HttpResponse
from lakesweep.storage.moves import move_by_copy, object_exists
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    StorageCapabilities,
    check_expected,
    check_keys,
)
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.client import S3Client, ServerFeature, object_info
from lakesweep.storage.s3.deletes import BucketVersions, S3Deletes, probe_beside
from lakesweep.storage.s3.endpoint import S3Request
from lakesweep.storage.s3.errors import PRECONDITION_FAILED, Operation, error_of
from lakesweep.storage.s3.listing import Lister
from lakesweep.storage.s3.multipart_copy import MultipartCopy, copy_source
from lakesweep.storage.s3.xml_bodies import parse_text

_DELETE_BATCH = 1000
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_CREATE_ONLY = {"If-None-Match": "*"}


class S3Store:
    """One bucket. Sends each request once; a wrapper retries."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._options = options
        self._client = S3Client(bucket, options)
        self._lister = Lister(self._client)
        known = True if self._client.is_amazon else None
        self._conditional_writes = ServerFeature(known)
        self._deletes = S3Deletes(self._client, is_bulk=options.delete_batch != 1)
        self._versions = BucketVersions(self._client)

    def __reduce__(self) -> tuple[type[S3Store], tuple[str, StorageOptions]]:
        return S3Store, (self._client.bucket, self._options)

    @property
    def base(self) -> str:
        """What precedes a key in a full address."""
        return self._client.base

    @property
    def capabilities(self) -> StorageCapabilities:
        """What is known so far: a server that turns out to do less than Amazon S3 says so here."""
        return StorageCapabilities(
            delete_batch=min(self._options.delete_batch or _DELETE_BATCH, _DELETE_BATCH),
            ordered=self._lister.ordered,
            write_new=self._conditional_writes.is_possible,
            verified_deletes=self._deletes.are_verified,
        )

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page of the objects below `prefix`.

        If the store turns out not to list in order, it loses `capabilities.ordered`; if `after`
        relied on that order, UnsupportedError is raised.
        """
        return self._lister.page(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        """What the store reports about the object, or MissingError."""
        return self._client.info(key)

    def read(self, key: str) -> bytes:
        """The whole object."""
        return self._client.ask(Operation.READ, S3Request("GET", self.base + key, key)).body

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only if the object ends earlier."""
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
        self._client.put(key, data, {})

    def write_new(self, key: str, data: bytes) -> None:
        """Create the object if it is absent, atomically; ExistsError if it exists.

        Some servers silently treat a conditional write as a plain one. So a server other than
        Amazon S3 is probed once, with an object of our own beside the key.
        """
        if not self._conditional_writes.find(partial(self._probe_creating, key)):
            raise UnsupportedError(self.base + key, "this store has no conditional writes")
        self._client.put(key, data, _CREATE_ONLY)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete distinct keys in one bulk request; one outcome each, in that order.

        Keys that XML cannot carry, and all keys if `delete_batch` is 1, are deleted by single
        requests. Objects are compared by etag. Some servers treat a conditional delete as a plain
        one, so a server other than Amazon S3 is probed first, as for `write_new`; if it fails the
        probe, deletes are unconditional.
        """
        check_keys(keys, self.capabilities.delete_batch)
        check_expected(keys, expected)
        return self._deletes.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket, replacing the target."""
        self._copy(source, target, {})

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Copy the object in its current state, verify the copy, and delete what was copied.

        The copy keeps the storage class; its modification time is that of the move.
        """
        head = self._client.head(source)
        info = object_info(source, head)
        move_by_copy(
            self,
            info,
            target,
            expected,
            copy=partial(self._copy_new, source, target, head),
            remove=partial(self._deletes.delete_seen, info),
        )

    def keeps_versions(self) -> bool:
        """Whether versioning is enabled."""
        return self._versions.are_kept()

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        """Remove the delete markers on top of the object."""
        if not self._versions.were_kept():
            raise UnsupportedError(self.base + key, "this bucket does not keep versions")
        self._versions.restore(key, expected)

    def _copy(
        self,
        source: str,
        target: str,
        conditions: Mapping[str, str],
        head: HttpResponse | None = None,
    ) -> None:
        """Copy an object; if `head` is given, only in that state."""
        headers = {
            "x-amz-copy-source": copy_source(self._client.bucket, source),
            **({} if head is None else _copy_conditions(head)),
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
            parts = MultipartCopy(self._client, source, target, head or self._client.head(source))
            replace(parts, conditions=conditions).run()

    def _copy_new(self, source: str, target: str, head: HttpResponse) -> None:
        """Copy to a key that was free a moment ago; if the server can, only if it still is."""
        try:
            self._copy(source, target, _CREATE_ONLY, head)
        except UnsupportedError:
            # The target was free a moment ago; servers without conditional copies leave that small
            # race.
            self._copy(source, target, {}, head)
        except StorageError as error:
            if not error.reason.startswith(PRECONDITION_FAILED):
                raise
            if object_exists(self, target):
                raise ExistsError(self.base + target, "already exists") from error
            raise ChangedError(self.base + source, CHANGED) from error

    def _probe_creating(self, key: str) -> bool:
        """Whether the server refuses to create the same object twice, as it must."""
        probe = probe_beside(key)
        try:
            self._client.put(probe, b"", _CREATE_ONLY)
        except UnsupportedError:
            return False
        try:
            self._client.put(probe, b"", _CREATE_ONLY)
        except ExistsError:
            return True
        except UnsupportedError:
            return False
        else:
            return False
        finally:
            self._deletes.remove_probe(probe)


def _copy_conditions(head: HttpResponse) -> dict[str, str]:
    """The headers of a copy that must get exactly this object, in its storage class."""
    names = {"etag": "x-amz-copy-source-if-match", "x-amz-storage-class": "x-amz-storage-class"}
    return {names[name]: head.headers[name] for name in names if name in head.headers}


def _check_range(request: S3Request, answer: HttpResponse, start: int, length: int) -> None:
    """Check the range that was sent: some servers send part of an object with status 200."""
    sent = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    if sent is None:
        raise UnavailableError(request.path, "the response does not say which range it holds")
    first, last, size = (int(number) for number in sent.groups())
    if (first, last) != (start, min(start + length, size) - 1):
        raise UnavailableError(
            request.path, f"the response holds bytes {first}-{last}, not those requested"
        )
    if len(answer.body) != last - first + 1:
        raise UnavailableError(request.path, "the response is not as long as its range")


def _is_too_large(error: StorageError) -> bool:
    """Whether the object is too large for one copy request (5 GiB on S3)."""
    return error.reason.startswith(("EntityTooLarge", "InvalidRequest")) and (
        "larger than the maximum" in error.reason or "EntityTooLarge" in error.reason
    )
