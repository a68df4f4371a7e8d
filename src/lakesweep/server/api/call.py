"""What handlers receive and return, and the rows of the table of routes.

A handler is a function over one call of the API. It runs on a thread, since the store is
synchronous, and returns a struct, a page of bytes, a stream, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.server.auth.authentication import Authenticator, Caller

if TYPE_CHECKING:
    from lakesweep.server.metrics import ServiceMetrics

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
FORM = "application/x-www-form-urlencoded"

Given = TypeVar("Given", bound=msgspec.Struct)


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without parameters."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all calls of a service share."""

    app: App
    authenticator: Authenticator
    metrics: ServiceMetrics
    is_stopping: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Call(Generic[Given]):
    """One call: who makes it, the names in its path, and its parameters or its body."""

    around: Surroundings
    caller: Caller
    names: Mapping[str, str]
    given: Given
    address: str = ""
    accept: str = ""

    @property
    def app(self) -> App:
        """The components of the service."""
        return self.around.app


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is more than a struct with the usual status."""

    content: msgspec.Struct | bytes | None = None
    status: HTTPStatus = HTTPStatus.OK
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamReply:
    """An answer that comes piece by piece; it may be as long as it likes.

    An empty piece says that there is nothing new: the next one is asked for after a pause.
    """

    pieces: Iterator[bytes]
    media_type: str


Answer = msgspec.Struct | Reply | StreamReply | None


@dataclass(frozen=True, slots=True)
class Route(Generic[Given]):
    """A row of the table: everything that is known of an endpoint.

    Parameters are in the query of a GET or DELETE, and in the body of other methods. `role` is None
    if anyone may call it. `answers` are the structs that it may succeed with, and `media_types`
    how.
    """

    method: str
    path: str
    handler: Callable[[Call[Given]], Answer]
    role: ServiceRole | None
    request: type[Given]
    answers: tuple[type[msgspec.Struct], ...]
    summary: str
    status: HTTPStatus = HTTPStatus.OK
    media_types: tuple[str, ...] = (JSON,)
    takes: str = JSON

    @property
    def has_body(self) -> bool:
        """Whether its parameters are in the body."""
        return self.method in ("POST", "PUT")

    @property
    def tag(self) -> str:
        """What it is about: the first word behind the version."""
        words = self.path.strip("/").split("/")
        return words[2].partition(":")[0] if words[:2] == ["api", "v1"] else "service"
