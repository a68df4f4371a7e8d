"""What the answers of cloud stores mean, from a server that says nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lakesweep.errors import (
    DeniedError,
    LockedError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.google.store import GoogleStore
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.options import StorageOptions

AZURE = "container@account.dfs.core.windows.net"


class _Refuser(ThreadingHTTPServer):
    """Answers every request with one status and one body."""

    status = 500
    body = b"<Error><Code>Code</Code><Message>words</Message></Error>"


class _Handler(BaseHTTPRequestHandler):
    server: _Refuser

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_PUT = do_DELETE = do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def refuser() -> Iterator[_Refuser]:
    with _Refuser(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def open_on(kind: str, server: ThreadingHTTPServer) -> ObjectStore:
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    if kind == "gcs":
        options = StorageOptions(endpoint=endpoint, anonymous=True, retries=0)
        return GoogleStore("bucket", options)
    options = StorageOptions(endpoint=endpoint, sas_token="sv=1&sig=secret", retries=0)
    return AzureStore(AZURE, options)


@pytest.mark.parametrize("kind", ["gcs", "azure"])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, StorageError),
        (401, DeniedError),
        (403, DeniedError),
        (404, MissingError),
        (429, ThrottledError),
        (500, UnavailableError),
        (503, ThrottledError),
    ],
)
def test_each_status_has_its_error(
    refuser: _Refuser, kind: str, status: int, error: type[Exception]
) -> None:
    refuser.status = status
    store = open_on(kind, refuser)
    for call in (lambda: store.read("folder/key"), lambda: store.list("folder/")):
        with pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error
        assert str(caught.value).startswith(f"{store.base}folder/")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["gcs", "azure"])
@pytest.mark.parametrize(
    ("status", "outcome", "may_retry"),
    [
        (400, Outcome.FAILED, False),
        (403, Outcome.DENIED, False),
        (404, Outcome.ABSENT, False),
        (429, Outcome.THROTTLED, True),
        (500, Outcome.FAILED, True),
    ],
)
def test_each_status_has_its_outcome_of_a_delete(
    refuser: _Refuser, kind: str, status: int, outcome: Outcome, may_retry: bool
) -> None:
    refuser.status = status
    refuser.body = b""
    (deletion,) = open_on(kind, refuser).delete(["key"])
    assert (deletion.key, deletion.outcome, deletion.may_retry) == ("key", outcome, may_retry)


def test_an_object_under_retention_is_locked(refuser: _Refuser) -> None:
    refuser.status = 403
    refuser.body = b"Object is subject to bucket's retention policy"
    store = open_on("gcs", refuser)
    assert store.delete(["key"])[0].outcome is Outcome.LOCKED
    with pytest.raises(LockedError):
        store.write("key", b"")


@pytest.mark.parametrize("kind", ["gcs", "azure"])
def test_no_server_is_unavailable(kind: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as nobody_answers:
        store = open_on(kind, nobody_answers)
    with pytest.raises(UnavailableError):
        store.read("key")
    (deletion,) = store.delete(["key"])
    assert (deletion.outcome, deletion.may_retry) == (Outcome.FAILED, True)
