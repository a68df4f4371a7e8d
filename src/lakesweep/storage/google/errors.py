"""Translate error responses of Google Cloud Storage into our errors and delete outcomes."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import (
    DeniedError,
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

_LOCKS = frozenset({"retentionPolicyNotMet", "objectUnderActiveHold"})
_LOCKED = re.compile(r"retention policy|(?:active|temporary|event-based) hold", re.IGNORECASE)
_THROTTLES = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})
_LONGEST_TEXT = 300


class GoogleOperation(Enum):
    """The operations, each with the right it needs."""

    LIST = "list (storage.objects.list, in the role Storage Object Viewer)"
    READ = "read (storage.objects.get, in the role Storage Object Viewer)"
    WRITE = "write (storage.objects.create, in the role Storage Object User)"
    DELETE = "delete (storage.objects.delete, in the role Storage Object User)"


class _Detail(msgspec.Struct, frozen=True):
    reason: str = ""


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    errors: tuple[_Detail, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    error: _Error


def error_of(operation: GoogleOperation, path: str, answer: HttpResponse) -> LakesweepError:
    """The error for an unsuccessful response."""
    code, reason = _code_and_reason(answer)
    if answer.status == 404:
        if operation is GoogleOperation.LIST or "bucket does not exist" in reason:
            return MissingError(path, "the bucket does not exist", hint="check its name")
        return MissingError(path)
    if code in _LOCKS or (answer.status == 403 and _LOCKED.search(reason)):
        return LockedError(path, reason)
    if code in _THROTTLES or answer.status in (429, 503):
        return ThrottledError(path, reason, retry_after=pause_asked(answer))
    if answer.status in (408, 500, 502, 504):
        return UnavailableError(path, reason)
    if answer.status in (401, 403):
        hint = f"the credentials need the right to {operation.value}"
        return DeniedError(path, f"{operation.name.lower()} was refused: {reason}", hint=hint)
    return (UnsupportedError if answer.status in (405, 501) else StorageError)(path, reason)


def is_unmet(answer: HttpResponse) -> bool:
    """Whether a condition of the request did not hold."""
    return answer.status == 412


def outcome_of(key: str, path: str, answer: HttpResponse) -> Deletion:
    """The outcome for the response to the delete of one key."""
    if answer.is_success:
        return Deletion(key, Outcome.DELETED)
    if is_unmet(answer):
        return Deletion(key, Outcome.CHANGED, CHANGED)
    return outcome_of_error(key, error_of(GoogleOperation.DELETE, path, answer))


def _code_and_reason(answer: HttpResponse) -> tuple[str, str]:
    """The code of an error and what it says; proxies and downloads answer with plain text."""
    try:
        error = typed_json(answer.body, _Document).error
    except msgspec.MsgspecError:
        text = " ".join(answer.body[:_LONGEST_TEXT].decode("utf-8", "replace").split())
        return "", text or f"HTTP status {answer.status}"
    code = next((detail.reason for detail in error.errors if detail.reason), "")
    parts = [part for part in (code, " ".join(error.message.split())) if part]
    return code, ": ".join(parts) or f"HTTP status {answer.status}"
