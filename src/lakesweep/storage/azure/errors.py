"""Translate error responses of Azure into our errors and delete outcomes."""

from __future__ import annotations

import re
from enum import Enum

from lakesweep.errors import (
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

_CODE = re.compile(rb"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<\n]{1,500})")
_LOCKS = frozenset(
    {
        "BlobImmutableDueToPolicy",
        "BlobImmutableDueToLegalHold",
        "LeaseIdMissing",
        "LeaseIdMismatchWithBlobOperation",
        "SnapshotsPresent",
    }
)
_THROTTLES = frozenset({"ServerBusy", "IngressOverLimit", "EgressOverLimit", "TooManyRequests"})
_CONDITIONS = frozenset({"ConditionNotMet", "SourceConditionNotMet", "TargetConditionNotMet"})
_UNSUPPORTED = frozenset({"FeatureNotSupportedForAccount", "UnsupportedHttpVerb", "NotImplemented"})
_HINTS = {
    "AuthenticationFailed": "check account_key or sas_token, and the clock of this machine",
    "PublicAccessNotPermitted": "the container is not public: set account_key or sas_token",
}


class AzureOperation(Enum):
    """The operations, each with the right it needs."""

    LIST = "list (SAS permission l, or the role Storage Blob Data Reader)"
    READ = "read (SAS permission r, or the role Storage Blob Data Reader)"
    WRITE = "write (SAS permission w, or the role Storage Blob Data Contributor)"
    DELETE = "delete (SAS permission d, or the role Storage Blob Data Contributor)"


def code_of(answer: HttpResponse) -> str:
    """The error code, from the header or the document."""
    found = _CODE.search(answer.body)
    return answer.headers.get("x-ms-error-code") or (found[1].decode() if found else "")


def error_of(operation: AzureOperation, path: str, answer: HttpResponse) -> LakesweepError:
    """The error for an unsuccessful response."""
    code, reason = code_of(answer), _reason(answer)
    if code == "ContainerNotFound":
        return MissingError(path, "the container does not exist", hint="check its name")
    if answer.status == 404:
        return MissingError(path)
    if code in ("BlobAlreadyExists", "TargetConditionNotMet"):
        return ExistsError(path, "already exists")
    if code in _LOCKS:
        return LockedError(path, reason)
    if code in _THROTTLES or answer.status in (429, 503):
        return ThrottledError(path, reason, retry_after=pause_asked(answer))
    if answer.status in (408, 500, 502, 504):
        return UnavailableError(path, reason)
    if answer.status in (401, 403):
        hint = _HINTS.get(code, f"the credentials need the right to {operation.value}")
        return DeniedError(path, f"{operation.name.lower()} was refused: {reason}", hint=hint)
    is_unsupported = code in _UNSUPPORTED or answer.status in (405, 501)
    return (UnsupportedError if is_unsupported else StorageError)(path, reason)


def is_unmet(answer: HttpResponse) -> bool:
    """Whether a condition of the request did not hold."""
    return answer.status in (304, 409, 412) and (
        code_of(answer) in _CONDITIONS or (answer.status == 412 and not code_of(answer))
    )


def outcome_of(key: str, path: str, answer: HttpResponse) -> Deletion:
    """The outcome for the response to the delete of one key."""
    if answer.is_success:
        return Deletion(key, Outcome.DELETED)
    if is_unmet(answer):
        return Deletion(key, Outcome.CHANGED, CHANGED)
    return outcome_of_error(key, error_of(AzureOperation.DELETE, path, answer))


def _reason(answer: HttpResponse) -> str:
    found = _MESSAGE.search(answer.body)
    message = found[1].decode("utf-8", "replace").strip() if found else ""
    parts = [part for part in (code_of(answer), message) if part]
    return ": ".join(parts) or f"HTTP status {answer.status}"
