"""Requests whose answers are successes or errors of ours, never something in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakesweep.errors import UnavailableError
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.documents import BadAnswerError, parse_error
from lakesweep.storage.s3.errors import Operation, error_of
from lakesweep.storage.s3.wire import Answer, Request, Wire

T = TypeVar("T")


class Client:
    """One bucket, asked one request at a time. Safe to share between threads."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._wire = Wire(bucket, options)
        self.bucket = bucket
        self.base = f"s3://{bucket}/"

    @property
    def is_amazon(self) -> bool:
        """Whether Amazon itself answers, so that its habits are known."""
        return self._wire.is_amazon

    def send(self, request: Request) -> Answer:
        """The answer, whatever its status."""
        return self._wire.send(request)

    def ask(self, operation: Operation, request: Request) -> Answer:
        """The answer to a request that succeeded; raises for any other."""
        answer = self._wire.send(request)
        if not 200 <= answer.status < 300:
            raise error_of(operation, request.path, answer)
        return answer

    def ask_xml(self, operation: Operation, request: Request, parse: Callable[[bytes], T]) -> T:
        """What a successful answer says. S3 may send an error under a status of success."""
        answer = self.ask(operation, request)
        try:
            return parse(answer.body)
        except BadAnswerError as error:
            if parse_error(answer.body).code:
                raise error_of(operation, request.path, answer) from None
            raise UnavailableError(request.path, str(error)) from error
