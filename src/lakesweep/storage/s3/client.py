"""Send a request to one bucket; returns a success or raises one of our errors.

Also remembers which optional features a server has, each probed once.
"""

from __future__ import annotations

import hashlib
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from lakesweep.errors import UnavailableError
from lakesweep.storage.http_transport import DOCUMENT_BYTES, HttpResponse, count_of, http_time
from lakesweep.storage.object_store import ObjectInfo
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.endpoint import S3Request, S3Transport
from lakesweep.storage.s3.errors import Operation, error_of
from lakesweep.storage.s3.xml_bodies import BadAnswerError, parse_error

T = TypeVar("T")


class S3Client:
    """One bucket, one request per call. Safe to share between threads."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._transport = S3Transport(bucket, options)
        self.bucket = bucket
        self.base = f"s3://{bucket}/"

    @property
    def is_amazon(self) -> bool:
        """Whether the server is Amazon S3, whose behaviour is known."""
        return self._transport.is_amazon

    def send(self, request: S3Request) -> HttpResponse:
        """The response, whatever its status."""
        return self._transport.send(request)

    def ask(self, operation: Operation, request: S3Request) -> HttpResponse:
        """The response to a request that succeeded; raises otherwise."""
        answer = self._transport.send(request)
        if not answer.is_success:
            raise error_of(operation, request.path, answer)
        return answer

    def ask_xml(self, operation: Operation, request: S3Request, parse: Callable[[bytes], T]) -> T:
        """The parsed body of a success. S3 may send an error with a success status."""
        answer = self.ask(operation, replace(request, most_bytes=DOCUMENT_BYTES))
        try:
            return parse(answer.body)
        except BadAnswerError as error:
            if parse_error(answer.body).code:
                raise error_of(operation, request.path, answer) from None
            raise UnavailableError(request.path, str(error)) from error

    def head(self, key: str) -> HttpResponse:
        """The response to a HEAD request, with a size."""
        answer = self.ask(Operation.READ, S3Request("HEAD", self.base + key, key))
        if count_of(answer.headers.get("content-length")) is None:
            raise UnavailableError(self.base + key, "the response has no size")
        return answer

    def info(self, key: str) -> ObjectInfo:
        """What the store reports about an object, or MissingError."""
        return object_info(key, self.head(key))

    def put(self, key: str, data: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Write an object; `headers` may make that conditional."""
        signed = {"Content-MD5": md5_of(data), **headers}
        request = S3Request("PUT", self.base + key, key, headers=signed, body=data)
        return self.ask(Operation.WRITE, request)


def object_info(key: str, head: HttpResponse) -> ObjectInfo:
    """What the response to a HEAD request says about an object."""
    return ObjectInfo(
        key=key,
        size_bytes=int(head.headers["content-length"]),
        modified=http_time(head.headers.get("last-modified")),
        etag=head.headers["etag"].strip('"') if "etag" in head.headers else None,
    )


def md5_of(data: bytes) -> str:
    """The value of a Content-MD5 header: S3 refuses a body that was damaged in transit."""
    return b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


class ServerFeature:
    """An optional feature of a server. If unknown, the first caller probes for it."""

    def __init__(self, known: bool | None = None) -> None:
        self._is_supported = known
        self._lock = threading.Lock()

    @property
    def is_possible(self) -> bool:
        """False only if the server is known not to support it."""
        return self._is_supported is not False

    def find(self, probe: Callable[[], bool]) -> bool:
        """Whether the server supports it. If `probe` raises, this stays unknown."""
        # The lock is held while probing, so that parallel callers do not all create probe objects.
        with self._lock:
            if self._is_supported is None:
                self._is_supported = probe()
        return self._is_supported
