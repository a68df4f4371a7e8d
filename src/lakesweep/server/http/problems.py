"""Errors as problem documents (RFC 9457): what happened, why, and what to try.

A problem has the type and the hint of `errors.py`, and the exit code that the same error has on the
command line, so a client can end as the local command would.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from lakesweep.errors import (
    ContendedError,
    EntityExistsError,
    LakesweepError,
    LogCutError,
    RealmExistsError,
    ReferenceExistsError,
    RefusedError,
    SnapshotExpiredError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:lakesweep:problem:"

#: The status of an answer by the exit code of its error.
STATUSES: Mapping[int, HTTPStatus] = {
    1: HTTPStatus.INTERNAL_SERVER_ERROR,
    2: HTTPStatus.BAD_REQUEST,
    3: HTTPStatus.CONFLICT,
    4: HTTPStatus.BAD_GATEWAY,
    5: HTTPStatus.LOCKED,
    6: HTTPStatus.NOT_FOUND,
    7: HTTPStatus.CONFLICT,
}
#: Errors that mean something more exact than their exit code.
_EXACT: Mapping[type[LakesweepError], HTTPStatus] = {
    ContendedError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnreachableError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ThrottledError: HTTPStatus.SERVICE_UNAVAILABLE,
    EntityExistsError: HTTPStatus.CONFLICT,
    RealmExistsError: HTTPStatus.CONFLICT,
    ReferenceExistsError: HTTPStatus.CONFLICT,
    LogCutError: HTTPStatus.GONE,
    SnapshotExpiredError: HTTPStatus.GONE,
}


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every answer that is not a success. `guard` is set if a guard refused."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    exit_code: int | None = None
    guard: str | None = None
    overrides: tuple[str, ...] = ()


class HttpError(Exception):
    """A request that is wrong as a request, whatever it asks for."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.hint = hint
        self.headers = dict(headers or {})

    @property
    def problem(self) -> ProblemDocument:
        """The document for it."""
        return ProblemDocument(
            type=f"{_TYPE}{self.status.phrase.title().replace(' ', '')}",
            title=self.status.phrase,
            status=self.status.value,
            detail=str(self),
            hint=self.hint,
        )


def status_of(error: LakesweepError) -> HTTPStatus:
    """The status of one of our errors."""
    for kind in type(error).__mro__:
        if kind in _EXACT:
            return _EXACT[kind]
    return STATUSES[error.exit_code]


def problem_of(error: LakesweepError) -> ProblemDocument:
    """The document for one of our errors."""
    status = status_of(error)
    refused = error if isinstance(error, RefusedError) else None
    return ProblemDocument(
        type=f"{_TYPE}{type(error).__name__}",
        title=status.phrase,
        status=status.value,
        detail=error.message,
        hint=error.hint,
        exit_code=error.exit_code,
        guard=refused.guard if refused else None,
        overrides=refused.overrides if refused else (),
    )


def answer_of(error: Exception) -> Response:
    """The answer to a request that failed. What went wrong inside stays inside."""
    if isinstance(error, HttpError):
        return _answer(error.problem, error.headers)
    if isinstance(error, LakesweepError):
        problem = problem_of(error)
        is_busy = problem.status == HTTPStatus.SERVICE_UNAVAILABLE
        return _answer(problem, {"retry-after": "5"} if is_busy else {})
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return _answer(HttpError(status, "an unexpected error", hint="see the log").problem, {})


def _answer(problem: ProblemDocument, headers: Mapping[str, str]) -> Response:
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, dict(headers), media_type=MEDIA_TYPE)
