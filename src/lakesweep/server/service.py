"""Run the service: HTTP and the scheduler in one process, until it is told to stop.

The store may be away, at the start or later: requests are then answered with 503, due times wait,
and both go on when it is back.
"""

from __future__ import annotations

import errno
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from lakesweep.app import App
from lakesweep.errors import ConfigError, UnreachableError
from lakesweep.scheduler.service import SchedulerService
from lakesweep.server.application import ServiceOptions, create_app
from lakesweep.server.auth.authentication import Authenticator
from lakesweep.server.http.connections import BoundedHttpProtocol
from lakesweep.server.http.responses import with_spelled_names

#: How long requests may go on after the service was told to stop.
_DRAIN_SECONDS = 10
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """Where to listen and how many jobs to run at once. `config` is the configuration file."""

    host: str
    port: int
    workers: int
    config: Path | None = None
    mounts: Mapping[str, ASGIApp] = field(default_factory=dict)


def serve(app: App, request: ServeRequest, notify: Callable[[str], object]) -> None:
    """Serve until SIGTERM or SIGINT. ConfigError if it cannot listen as configured."""
    tls = _tls(app)
    _check_access(app, request, notify)
    with closing(_listen(request.host, request.port)) as listener:
        stopping = threading.Event()
        options = ServiceOptions(
            host=request.host,
            is_secure=tls is not None,
            log=notify,
            is_stopping=stopping.is_set,
            mounts=request.mounts,
            has_console=True,
        )
        jobs = SchedulerService(app, None, request.workers, request.config, notify)
        scheduler = threading.Thread(target=jobs.run, args=(stopping,), name="scheduler")
        server = _Server(_configuration(app, options, tls))
        with _stopped_by_signals(server, stopping):
            scheduler.start()
            try:
                _announce(listener, tls, notify)
                server.run([listener])
            finally:
                stopping.set()
                scheduler.join()


def _check_access(app: App, request: ServeRequest, notify: Callable[[str], object]) -> None:
    """Refuse to be open to other machines, and say if it is open to this one."""
    authenticator = Authenticator.of(app, request.host)
    # The scheduler says that the store is away. Each request asks again who may do what, and only
    # the address decides whether it could be open at all.
    with suppress(UnreachableError):
        authenticator.check_closed()
        if authenticator.is_open:
            notify(
                "no token was made yet, so everyone on this machine may do everything;"
                " lakesweep token create NAME --role admin ends that"
            )


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens; bound here, so that what is wrong with it can be said."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        # With the protocol named, asyncio sends small answers at once (TCP_NODELAY).
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _not_listening(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _not_listening(host, port, error) from error
    return listener


def _not_listening(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} of {host} is taken by another process",
            hint=f"lakesweep serve --port {port + 1 if port < 65_535 else 8080}",
        )
    if error.errno == errno.EACCES:
        return ConfigError(
            f"port {port} needs more rights than this user has", hint="lakesweep serve --port 8080"
        )
    reason = error.strerror or str(error)
    return ConfigError(
        f"cannot listen on {host}: {reason}", hint="lakesweep serve --host 127.0.0.1"
    )


def _tls(app: App) -> ssl.SSLContext | None:
    section = app.config.server
    if section.certificate is None or section.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(app.folder / section.certificate, app.folder / section.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"[server] certificate and key cannot be used: {error.strerror or error}",
            hint="both are files in PEM format, and the key belongs to the certificate",
        ) from error
    return context


def _configuration(app: App, options: ServiceOptions, tls: ssl.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        with_spelled_names(create_app(app, options)),
        http=BoundedHttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    config.load()
    config.ssl = tls
    return config


def _announce(
    listener: socket.socket, tls: ssl.SSLContext | None, notify: Callable[[str], object]
) -> None:
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    notify(f"listening on {'https' if tls else 'http'}://{name}:{port}")


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it: to stop when told to is success."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _stopped_by_signals(server: uvicorn.Server, stopping: threading.Event) -> Iterator[None]:
    """Take signals for a stop from now on; before anyone is told that the service is there."""

    def stop(number: int, _: object) -> None:
        stopping.set()
        server.handle_exit(number, None)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
