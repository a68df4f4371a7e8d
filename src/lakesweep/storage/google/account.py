"""The endpoint and the credentials of Google Cloud Storage.

Credentials are found as Google's own clients find them, with one difference: a service that hands
out credentials by the network is asked only if nothing else was given.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from lakesweep.errors import ConfigError, DeniedError, UnavailableError
from lakesweep.storage.options import StorageOptions

#: Credentials of google-auth, which has no types.
Credentials: TypeAlias = Any

_GOOGLE = "https://storage.googleapis.com"
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR = "STORAGE_EMULATOR_HOST"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_HINT = f"set service_account or {_FILE}, or set anonymous = true"


@dataclass(frozen=True, slots=True)
class GoogleEndpoint:
    """Where the service is reached: `origin` is scheme and host, `root` precedes every path."""

    origin: str
    root: str = ""

    @property
    def is_google(self) -> bool:
        """Whether this is Google's own service, whose behaviour is known."""
        host = urlsplit(self.origin).hostname or ""
        return host.endswith(".googleapis.com") and self.is_encrypted

    @property
    def is_encrypted(self) -> bool:
        return self.origin.startswith("https://")


def find_endpoint(options: StorageOptions) -> GoogleEndpoint:
    """The endpoint of the options, of an emulator in the environment, or Google's own."""
    given = options.endpoint
    if given is None and (emulator := os.environ.get(_EMULATOR)):
        given = emulator if "://" in emulator else f"http://{emulator}"
    parts = urlsplit(given or _GOOGLE)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"{given!r} is not a valid endpoint", hint="write endpoint = 'https://host:port'"
        )
    return GoogleEndpoint(f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/"))


class GoogleAccount:
    """Authorises requests by tokens, which it renews before they expire."""

    def __init__(self, where: str, endpoint: GoogleEndpoint, options: StorageOptions) -> None:
        self._where = where
        self._renewing = threading.Lock()
        self._find = _credentials_source(endpoint, options)
        self._credentials: Credentials | None = None

    def headers(self) -> Mapping[str, str]:
        """The headers that authorise a request; none if requests are anonymous."""
        if self._find is None:
            return {}
        with self._renewing:
            try:
                return self._token_headers(self._find)
            except ConfigError:
                raise
            except Exception as error:  # google-auth lets errors of its transports through
                raise self._refusal(error) from error

    def _token_headers(self, find: Callable[[], Credentials]) -> Mapping[str, str]:
        if self._credentials is None:
            self._credentials = find()
        if not self._credentials.valid:
            self._credentials.refresh(_transport())
        headers = {"Authorization": f"Bearer {self._credentials.token}"}
        project = getattr(self._credentials, "quota_project_id", None)
        return {**headers, "x-goog-user-project": project} if project else headers

    def _refusal(self, error: Exception) -> DeniedError | UnavailableError:
        from google.auth.exceptions import TransportError

        kind = UnavailableError if isinstance(error, TransportError) else DeniedError
        # Everything behind the first line may quote the server's response.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return kind(self._where, f"no credentials were obtained: {reason}", hint=_HINT)


def _credentials_source(
    endpoint: GoogleEndpoint, options: StorageOptions
) -> Callable[[], Credentials] | None:
    """How credentials are found; None if requests are anonymous."""
    if options.anonymous:
        return None
    if options.service_account:
        return _of_file(options.service_account)
    # Google's clients send nothing to an emulator. A token in plain text would be anyone's.
    is_emulated = options.endpoint is None and bool(os.environ.get(_EMULATOR))
    if is_emulated or not endpoint.is_encrypted:
        return None
    if file := os.environ.get(_FILE):
        return _of_file(file)
    return _found_here


def _of_file(path: str) -> Callable[[], Credentials]:
    """The credentials of a file, which is read at once: a wrong file fails before all work."""
    auth = _library()
    try:
        with _no_warnings():
            found, _ = auth.load_credentials_from_file(str(Path(path).expanduser()))
    except Exception as error:  # a file may be anything, and google-auth reads it trustingly
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"the credentials in {path} cannot be used: {reason}") from error
    credentials = _scoped(found)
    return lambda: credentials


def _found_here() -> Credentials:
    """The credentials of gcloud, or of the machine in Google's cloud that this runs on."""
    with _no_warnings():
        found, _ = _library().default()
    return _scoped(found)


def _scoped(credentials: Credentials) -> Credentials:
    from google.auth.credentials import with_scopes_if_required

    return with_scopes_if_required(credentials, _SCOPES)  # type: ignore[no-untyped-call]


def _no_warnings() -> warnings.catch_warnings[None]:
    # google-auth warns of files from strangers, and of users without a project. This file is the
    # one that the user named.
    return warnings.catch_warnings(action="ignore")


def _transport() -> Any:
    from google.auth.transport.requests import Request

    return Request()


def _library() -> Any:
    try:
        import google.auth
    except ImportError as error:
        raise ConfigError(
            "Google Cloud needs the package google-auth, unless access is anonymous",
            hint="pip install 'lakesweep[google]'",
        ) from error
    return google.auth
