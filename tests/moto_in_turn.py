"""moto's server, answering one request after the other.

moto looks whether a key or a row is as expected and writes it in two steps, so on threads of its
own two conditional writes at once can both win. One at a time they cannot, as with the services
that it plays.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


def main() -> None:
    """Listen on a free port of 127.0.0.1, until somebody ends it."""
    moto, turn = DomainDispatcherApplication(create_backend_app), Lock()

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        with turn:
            return list(moto(environ, start_response))

    run_simple("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
