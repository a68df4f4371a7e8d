"""moto's server, answering one request after the other.

moto looks whether a key or a row is as expected and writes it in two steps, so on threads of its
own two conditional writes at once can both win. One at a time they cannot, as with the services
that it plays. It also looks through its own folders at each request for the service that is meant;
once for each host will do, and a connection may be used again. For each key of a listing it reads
its own timestamp, at length; most keys have that of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from threading import Lock
from typing import Any

from botocore.utils import parse_to_aware_datetime
from moto.core import serialize
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class _Dispatcher(DomainDispatcherApplication):
    @cache  # noqa: B019 - there is one for the whole process
    def get_backend_for_host(self, host: str | None) -> Any:
        return super().get_backend_for_host(host)


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"


def main() -> None:
    """Listen on a free port of 127.0.0.1, until somebody ends it."""
    vars(serialize)["parse_to_aware_datetime"] = lru_cache(4096)(parse_to_aware_datetime)
    moto, turn = _Dispatcher(create_backend_app), Lock()

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        with turn:
            return list(moto(environ, start_response))

    run_simple("127.0.0.1", 0, answer, threaded=True, request_handler=_Handler)


if __name__ == "__main__":
    main()
