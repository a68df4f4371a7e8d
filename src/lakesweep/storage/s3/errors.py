"""Translate error responses of S3 into our errors and delete outcomes."""

from __future__ import annotations

from enum import Enum

from lakesweep.errors import (
    ConfigError,
    DeniedError,
    ExistsError,
    LakesweepError,
    LockedError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.conditional_deletes import outcome_of_error
from lakesweep.storage.http_transport import HttpResponse, pause_asked
from lakesweep.storage.object_store import CHANGED, Deletion, Outcome
from lakesweep.storage.s3.xml_bodies import ErrorBody, parse_error

PRECONDITION_FAILED = "PreconditionFailed"

_THROTTLES = frozenset(
    {
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "ServiceUnavailable",
        "RequestLimitExceeded",
        "TooManyRequests",
        "TooManyRequestsException",
        "Throttling",
        "ThrottlingException",
        "RequestThrottled",
        "BandwidthLimitExceeded",
    }
)
_BREAKDOWNS = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "RequestTimeout",
        "OperationAborted",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "BadDigest",
        "TemporaryRedirect",
    }
)
_DENIALS = frozenset(
    {
        "AccessDenied",
        "AllAccessDisabled",
        "AccountProblem",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "TokenRefreshRequired",
        "InvalidToken",
        "RequestTimeTooSkewed",
    }
)
_UNSUPPORTED = frozenset({"NotImplemented", "MethodNotAllowed"})
_LOCK_WORDS = ("object lock", "objectlock", "retention", "legal hold", "legalhold", "worm")

_ARCHIVED = "InvalidObjectState"

_HINTS = {
    "ExpiredToken": "the credentials have expired: get new ones",
    "TokenRefreshRequired": "the credentials have expired: get new ones",
    "InvalidToken": "check AWS_SESSION_TOKEN",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID and the endpoint",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY, and that no proxy changes requests",
    _ARCHIVED: "restore the object from its archive first; only deletes work without that",
    "RequestTimeTooSkewed": "correct the clock of this machine",
    "MethodNotAllowed": "set delete_batch = 1 for a store without bulk deletes",
    "NotImplemented": "set delete_batch = 1 for a store without bulk deletes",
}


class Operation(Enum):
    """The operations, each with the rights it needs."""

    LIST = "s3:ListBucket"
    READ = "s3:GetObject"
    WRITE = "s3:PutObject"
    DELETE = "s3:DeleteObject"
    COPY = "s3:GetObject and s3:PutObject"
    VERSIONING = "s3:GetBucketVersioning"
    VERSIONS = "s3:ListBucketVersions"
    UNDELETE = "s3:DeleteObjectVersion"


def error_of(operation: Operation, path: str, answer: HttpResponse) -> LakesweepError:
    """The error for an unsuccessful response."""
    body = parse_error(answer.body)
    code, reason = body.code, str(body) or f"HTTP status {answer.status}"
    if code == "NoSuchBucket":
        return MissingError(path, "the bucket does not exist", hint="check the bucket's name")
    if code == "NoSuchKey" or (answer.status == 404 and not answer.body):
        return MissingError(path)
    if answer.status == 412 and operation is Operation.WRITE:
        return ExistsError(path, "already exists")
    # Before the check for denials, whose code S3 uses for locks as well.
    if _is_lock(body):
        return LockedError(path, reason)
    if code in _THROTTLES or answer.status in (429, 503):
        return ThrottledError(path, reason, retry_after=pause_asked(answer))
    if code in _BREAKDOWNS or (answer.status >= 500 and code not in _UNSUPPORTED):
        return UnavailableError(path, reason)
    if code in _DENIALS or (answer.status in (401, 403) and code != _ARCHIVED):
        refused = f"{operation.name.lower()} was refused: {reason}"
        return DeniedError(path, refused, hint=_HINTS.get(code, _rights_hint(operation)))
    return _other_error(code, path, reason, answer)


def outcome_of(key: str, error: ErrorBody) -> Deletion:
    """The outcome for a per-key error of a bulk delete."""
    reason = str(error) or "the store gave no reason"
    if error.code == PRECONDITION_FAILED:
        return Deletion(key, Outcome.CHANGED, CHANGED)
    if _is_lock(error):
        return Deletion(key, Outcome.LOCKED, reason)
    if error.code in _THROTTLES:
        return Deletion(key, Outcome.THROTTLED, reason, may_retry=True)
    if error.code in _DENIALS:
        hint = _HINTS.get(error.code, _rights_hint(Operation.DELETE))
        return Deletion(key, Outcome.DENIED, f"{reason}; {hint}")
    if error.code in ("NoSuchKey", "NoSuchVersion"):
        return Deletion(key, Outcome.ABSENT, reason)
    return Deletion(key, Outcome.FAILED, reason, may_retry=error.code in _BREAKDOWNS)


def outcome_of_answer(key: str, path: str, answer: HttpResponse) -> Deletion:
    """The outcome for an unsuccessful response to the delete of one key."""
    body = parse_error(answer.body)
    if body.code:
        return outcome_of(key, body)
    if answer.status == 412:
        return Deletion(key, Outcome.CHANGED, CHANGED)
    return outcome_of_error(key, error_of(Operation.DELETE, path, answer))


def _other_error(code: str, path: str, reason: str, answer: HttpResponse) -> LakesweepError:
    if code in _UNSUPPORTED or answer.status in (405, 501):
        return UnsupportedError(path, reason, hint=_HINTS.get(code))
    if code in ("InvalidBucketName", "AuthorizationHeaderMalformed"):
        return ConfigError(f"{path}: {reason}", hint="check the bucket's name and the region")
    if answer.status == 307:
        return UnavailableError(path, reason)
    return StorageError(path, reason, hint=_HINTS.get(code))


def _is_lock(body: ErrorBody) -> bool:
    """Whether a retention rule or legal hold prevents it: S3 has no error code for that."""
    text = f"{body.code} {body.message}".lower()
    return body.code in ("AccessDenied", "InvalidRequest", "ObjectLocked") and any(
        word in text for word in _LOCK_WORDS
    )


def _rights_hint(operation: Operation) -> str:
    hint = f"the credentials need {operation.value}"
    if operation is Operation.READ:
        hint += "; without s3:ListBucket a missing object also looks denied"
    return hint
