"""Errors as Iceberg's clients read them: one envelope, whose code is the status of the answer.

A commit is answered with 409 only if it surely did not land, and with 5xx if that is not known:
clients delete the files of a commit that was refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError
from lakesweep.errors import (
    ContendedError,
    DeniedError,
    InexactKeyError,
    LakesweepError,
    NotFoundError,
    RefusedError,
    SnapshotExpiredError,
    ThrottledError,
    UnavailableError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from lakesweep.server.http.problems import HttpError
from lakesweep.server.http.threads import TookTooLongError

JSON = "application/json"
_RETRY = {"retry-after": "2"}

STATUSES: Mapping[ProblemType, HTTPStatus] = {
    ProblemType.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    ProblemType.ILLEGAL_ARGUMENT: HTTPStatus.BAD_REQUEST,
    ProblemType.NOT_AUTHORIZED: HTTPStatus.UNAUTHORIZED,
    ProblemType.FORBIDDEN: HTTPStatus.FORBIDDEN,
    ProblemType.NO_SUCH_WAREHOUSE: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_NAMESPACE: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_TABLE: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_VIEW: HTTPStatus.NOT_FOUND,
    ProblemType.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_PLAN: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_PLAN_TASK: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_POLICY: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_TARGET: HTTPStatus.NOT_FOUND,
    ProblemType.NO_SUCH_MAPPING: HTTPStatus.NOT_FOUND,
    ProblemType.POLICY_IN_USE: HTTPStatus.BAD_REQUEST,
    ProblemType.POLICY_CONFLICT: HTTPStatus.CONFLICT,
    ProblemType.POLICY_VERSION: HTTPStatus.CONFLICT,
    ProblemType.UNSUPPORTED: HTTPStatus.NOT_ACCEPTABLE,
    ProblemType.ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ProblemType.NAMESPACE_NOT_EMPTY: HTTPStatus.CONFLICT,
    ProblemType.COMMIT_FAILED: HTTPStatus.CONFLICT,
    ProblemType.COMMIT_UNKNOWN: HTTPStatus.INTERNAL_SERVER_ERROR,
    ProblemType.UNPROCESSABLE: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProblemType.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ProblemType.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_BY_STATUS: Mapping[HTTPStatus, ProblemType] = {
    HTTPStatus.UNAUTHORIZED: ProblemType.NOT_AUTHORIZED,
    HTTPStatus.FORBIDDEN: ProblemType.FORBIDDEN,
    HTTPStatus.NOT_FOUND: ProblemType.NOT_FOUND,
    HTTPStatus.SERVICE_UNAVAILABLE: ProblemType.UNAVAILABLE,
}
#: Our errors, the most exact ones first.
_OURS: tuple[tuple[type[LakesweepError], ProblemType], ...] = (
    (UnknownOutcomeError, ProblemType.COMMIT_UNKNOWN),
    (ContendedError, ProblemType.UNAVAILABLE),
    (UnreachableError, ProblemType.UNAVAILABLE),
    (ThrottledError, ProblemType.UNAVAILABLE),
    (UnavailableError, ProblemType.UNAVAILABLE),
    (DeniedError, ProblemType.FORBIDDEN),
    (InexactKeyError, ProblemType.BAD_REQUEST),
    (SnapshotExpiredError, ProblemType.BAD_REQUEST),
    (RefusedError, ProblemType.BAD_REQUEST),
    (UsageError, ProblemType.BAD_REQUEST),
    (NotFoundError, ProblemType.NOT_FOUND),
)


class ErrorModel(msgspec.Struct, frozen=True):
    """What went wrong."""

    message: str
    type: str
    code: int


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success."""

    error: ErrorModel


def refusal_of(error: Exception, *, is_commit: bool) -> Response:
    """The answer to a request that failed. What went wrong inside stays inside."""
    if isinstance(error, TookTooLongError) and is_commit:
        # It may still land.
        return _answer(HTTPStatus.GATEWAY_TIMEOUT, ProblemType.COMMIT_UNKNOWN, str(error), {})
    if isinstance(error, HttpError):
        type_ = _BY_STATUS.get(error.status, ProblemType.BAD_REQUEST)
        return _answer(error.status, type_, str(error), error.headers)
    if isinstance(error, RecursionError):
        return _typed(ProblemType.BAD_REQUEST, "the request is nested too deeply")
    if not isinstance(error, LakesweepError):
        return _typed(ProblemType.INTERNAL, "an unexpected error")
    return _typed(_type_of(error, is_commit=is_commit), error.message)


def _type_of(error: LakesweepError, *, is_commit: bool) -> ProblemType:
    if isinstance(error, WarehouseError):
        return error.type
    if isinstance(error, ContendedError) and is_commit:
        return ProblemType.COMMIT_FAILED
    if isinstance(error, RefusedError) and error.guard == "catalog-state":
        return ProblemType.NO_SUCH_WAREHOUSE
    return next((type_ for kind, type_ in _OURS if isinstance(error, kind)), ProblemType.INTERNAL)


def _typed(type_: ProblemType, message: str) -> Response:
    status = STATUSES[type_]
    is_busy = status is HTTPStatus.SERVICE_UNAVAILABLE
    return _answer(status, type_, message, _RETRY if is_busy else {})


def _answer(
    status: HTTPStatus, type_: ProblemType, message: str, headers: Mapping[str, str]
) -> Response:
    body = msgspec.json.encode(ErrorEnvelope(ErrorModel(message, type_, status.value)))
    return Response(body, status.value, dict(headers), media_type=JSON)
