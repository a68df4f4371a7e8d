"""Several HTTP requests in one, as multipart/mixed: the batches of Azure and Google Cloud."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from email.parser import BytesParser
from uuid import uuid4

from lakesweep.storage.http_transport import HttpRequest, HttpResponse

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_NUMBER = re.compile(r"(\d{1,6})>?$")


class BadBatchError(ValueError):
    """A response that is not a batch of responses."""


def batch_body(requests: Sequence[HttpRequest]) -> tuple[str, bytes]:
    """The content type and body of a request that contains these, numbered from 0."""
    boundary = f"batch_{uuid4()}"
    parts = [_part(boundary, number, request) for number, request in enumerate(requests)]
    return f"multipart/mixed; boundary={boundary}", b"".join(parts) + f"--{boundary}--\r\n".encode()


def parse_batch(response: HttpResponse) -> Mapping[int, HttpResponse]:
    """The responses in a response, by number. Those that a server left out are missing."""
    kind = response.headers.get("content-type", "")
    head = f"Content-Type: {kind}\r\nMIME-Version: 1.0\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + response.body)
    if not message.is_multipart():
        raise BadBatchError("the response is not a batch of responses")
    return dict(_responses(message.get_payload()))  # type: ignore[arg-type]


def _part(boundary: str, number: int, request: HttpRequest) -> bytes:
    lines = [
        f"--{boundary}",
        "Content-Type: application/http",
        "Content-Transfer-Encoding: binary",
        f"Content-ID: {number}",
        "",
        f"{request.method} {request.target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + request.body + b"\r\n"


def _responses(parts: Iterable[Message]) -> Iterable[tuple[int, HttpResponse]]:
    for part in parts:
        payload = bytes(part.get_payload(decode=True) or b"")
        number = _NUMBER.search(str(part.get("Content-ID", "")))
        status = _STATUS.match(payload)
        # A response without a number cannot be matched with its request: its outcome is unknown.
        if number is None or status is None:
            continue
        _, _, rest = payload.partition(b"\n")
        inner = BytesParser().parsebytes(rest)
        body = inner.get_payload(decode=True)
        headers = {name.lower(): str(value) for name, value in inner.items()}
        yield int(number[1]), HttpResponse(int(status[1]), headers, bytes(body or b""))
