"""Send a request to one bucket; the result is a success or one of our errors.

Also remembers which optional features a server has, each probed once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from lakesweep.errors import UnavailableError
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.errors import Operation, error_of
from lakesweep.storage.s3.transport import S3Request, S3Response, S3Transport
from lakesweep.storage.s3.xml_bodies import BadAnswerError, parse_error

T = TypeVar("T")


class S3Client:
    """One bucket, asked one request at a time. Safe to share between threads."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._wire = S3Transport(bucket, options)
        self.bucket = bucket
        self.base = f"s3://{bucket}/"

    @property
    def is_amazon(self) -> bool:
        """Whether Amazon itself answers, so that its habits are known."""
        return self._wire.is_amazon

    def send(self, request: S3Request) -> S3Response:
        """The answer, whatever its status."""
        return self._wire.send(request)

    def ask(self, operation: Operation, request: S3Request) -> S3Response:
        """The answer to a request that succeeded; raises for any other."""
        answer = self._wire.send(request)
        if not 200 <= answer.status < 300:
            raise error_of(operation, request.path, answer)
        return answer

    def ask_xml(self, operation: Operation, request: S3Request, parse: Callable[[bytes], T]) -> T:
        """What a successful answer says. S3 may send an error under a status of success."""
        answer = self.ask(operation, request)
        try:
            return parse(answer.body)
        except BadAnswerError as error:
            if parse_error(answer.body).code:
                raise error_of(operation, request.path, answer) from None
            raise UnavailableError(request.path, str(error)) from error


class ServerFeature:
    """Something that a server may do. What is not known is found out by the first who asks."""

    def __init__(self, known: bool | None = None) -> None:
        self._known = known
        self._finding = threading.Lock()

    @property
    def is_possible(self) -> bool:
        """False only where the server is known not to do it."""
        return self._known is not False

    def find(self, probe: Callable[[], bool]) -> bool:
        """Whether the server does it. An error of `probe` leaves it unknown."""
        with self._finding:
            if self._known is None:
                self._known = probe()
        return self._known
