"""The service as one ASGI application, made by `create_app`.

Requests are handled on threads, since the store is synchronous; how many at once is bounded. Other
applications can be mounted: whatever lies below their prefix is theirs, with its path as it was
sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.errors import LakesweepError
from lakesweep.server.api.call import (
    JSON,
    Answer,
    Call,
    Nothing,
    Reply,
    Route,
    StreamReply,
    Surroundings,
)
from lakesweep.server.api.openapi import openapi_document, openapi_page
from lakesweep.server.api.router import ApiRouter
from lakesweep.server.api.routes import ROUTES
from lakesweep.server.auth.authentication import ANYONE, Authenticator, Caller, check_role
from lakesweep.server.console.console import Console
from lakesweep.server.http.bodies import (
    check_media_type,
    parse_form,
    parse_json,
    parse_query,
    read_body,
)
from lakesweep.server.http.origins import TrustedProxies, check_host, check_same_site
from lakesweep.server.http.problems import HttpError, answer_of
from lakesweep.server.http.responses import WATCH, AnswerWatch, Log
from lakesweep.server.http.threads import RequestThreads
from lakesweep.server.iceberg.application import (
    MANAGEMENT_MOUNT,
    MOUNT,
    POLARIS_MOUNT,
    IcebergService,
)
from lakesweep.server.metrics import ServiceMetrics
from lakesweep.tracing import span
from lakesweep.units import format_moment

#: How often a stream without news is asked for some.
_PAUSE_SECONDS = 1.0
_DOCUMENT, _PAGE = "/api/openapi.json", "/api/docs"
#: Prefixes that no mounted application can take.
_POLARIS = (f"{POLARIS_MOUNT}/".encode(), f"{MANAGEMENT_MOUNT}/".encode())
_OWN = (b"/api/", b"/health/", b"/metrics")
_NOBODY = Caller("-", ServiceRole.VIEWER)


def _ignore(line: str) -> None:
    del line


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How a service is run. `host` is what it listens on; it decides whether it may be open."""

    host: str = "127.0.0.1"
    is_secure: bool = False
    log: Log = _ignore
    is_stopping: Callable[[], bool] = lambda: False
    mounts: Mapping[str, ASGIApp] = field(default_factory=dict)
    has_console: bool = False


def create_app(app: App, options: ServiceOptions) -> Service:
    """The application over some components. `mounts` are others, by the prefix of their paths."""
    return Service(app, options)


class Service:
    """Answers requests; see `create_app`."""

    def __init__(self, app: App, options: ServiceOptions) -> None:
        self.app = app
        self.options = options
        self.authenticator = Authenticator.of(app, options.host)
        self.metrics = ServiceMetrics(app)
        self._router = ApiRouter(ROUTES)
        self._proxies = TrustedProxies(app.config.server.trusted_proxies)
        self._proxies.check()
        self._threads = RequestThreads()
        catalogs = IcebergService(app, self.authenticator, self._threads, options.host, options.log)
        self._around = Surroundings(app, self.authenticator, self.metrics, options.is_stopping)
        self._mounts: dict[str, ASGIApp] = {
            MOUNT: catalogs,
            POLARIS_MOUNT: catalogs,
            MANAGEMENT_MOUNT: catalogs,
            **options.mounts,
        }
        if options.has_console:
            console = Console(
                self._around, options.host, is_secure=options.is_secure, log=options.log
            )
            self._mounts.setdefault("/", console)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI describes it."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Request(scope, receive), send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, request: Request, send: Send) -> None:
        peer = request.client.host if request.client else ""
        address = self._proxies.client(peer, request.headers.getlist("x-forwarded-for"))
        watch = AnswerWatch(
            send, request.method, request.scope["path"], address, self.options.is_secure
        )
        with span("request") as measured:
            try:
                await self._answer(request, watch)
            finally:
                measured.update_name(f"{watch.method} {watch.route}")
                measured.set_attribute("http.response.status_code", watch.status)
                self._record(watch)

    async def _answer(self, request: Request, watch: AnswerWatch) -> None:
        try:
            response: ASGIApp = await self._respond(request, watch)
            await response(request.scope, request.receive, watch)
        except Exception as error:
            if watch.status:
                raise  # the answer has begun: a broken connection is all that can be told
            await answer_of(error)(request.scope, request.receive, watch)
            if not isinstance(error, HttpError):
                self._note(error)

    def _note(self, error: Exception) -> None:
        """Say in the log what went wrong inside."""
        if not isinstance(error, LakesweepError):
            self.options.log(f"unexpected {type(error).__name__}: {error}")

    def _record(self, watch: AnswerWatch) -> None:
        self.metrics.count(watch.method, watch.route, watch.status, watch.seconds)
        if self.app.config.server.log == "json":
            self.options.log(watch.document(format_moment(self.app.clock.now())))
        else:
            self.options.log(watch.line())

    async def _respond(self, request: Request, watch: AnswerWatch) -> ASGIApp:
        path: bytes = request.scope["raw_path"]
        is_own = path.startswith(_OWN) and not path.startswith(_POLARIS)
        mount = None if is_own else self._mount(path)
        if mount is not None:
            watch.route, mounted = mount
            request.scope[WATCH] = watch
            return mounted
        if path.decode("latin-1") in (_DOCUMENT, _PAGE) and request.method in ("GET", "HEAD"):
            watch.route = path.decode()
            return self._document if watch.route == _DOCUMENT else self._page
        route, names = self._router.find(request.method, path)
        watch.route = route.path
        return await self._call(request, route, names, watch)

    def _mount(self, path: bytes) -> tuple[str, ASGIApp] | None:
        """The application that has the longest prefix of a path."""
        for prefix in sorted(self._mounts, key=len, reverse=True):
            folder = prefix.rstrip("/").encode()
            if path == folder or path.startswith(folder + b"/"):
                return prefix, self._mounts[prefix]
        return None

    async def _call(
        self, request: Request, route: Route[Any], names: Mapping[str, str], watch: AnswerWatch
    ) -> Response:
        check_same_site(request.method, request.headers)
        if route.has_body:  # read only for callers who may send one
            caller = await self._threads.run(lambda: self._admit(request, route, watch))
            given = await self._body(request, route, caller)
            work = partial(self._handle, request, route, names, watch, caller, given)
        else:
            work = partial(self._look_up, request, route, names, watch)
        return self._response(route, await self._threads.run(work))

    def _look_up(
        self, request: Request, route: Route[Any], names: Mapping[str, str], watch: AnswerWatch
    ) -> _Ready:
        """A call without a body: who asks and the answer, in one go on one thread."""
        caller = self._admit(request, route, watch)
        given = parse_query(request.scope.get("query_string", b""), route.request)
        return self._handle(request, route, names, watch, caller, given)

    def _handle(
        self,
        request: Request,
        route: Route[Any],
        names: Mapping[str, str],
        watch: AnswerWatch,
        caller: Caller | None,
        given: msgspec.Struct,
    ) -> _Ready:
        accept = request.headers.get("accept", "")
        call = Call(self._around, caller or _NOBODY, names, given, watch.address, accept)
        return _begun(route.handler(call))

    def _admit(self, request: Request, route: Route[Any], watch: AnswerWatch) -> Caller | None:
        """Who calls; None where that does not matter."""
        if route.role is None:
            return None
        headers = request.headers
        caller = self.authenticator.authenticate(headers, watch.address)
        if caller is ANYONE:
            check_host(headers, self.options.host)
        watch.caller = caller.name
        check_role(caller, route.role)
        return caller

    async def _body(
        self, request: Request, route: Route[Any], caller: Caller | None
    ) -> msgspec.Struct:
        """The parameters of a call, from its body."""
        parse_query(request.scope.get("query_string", b""), Nothing)
        body = await read_body(request)
        is_required = bool(body) or caller is ANYONE or route.takes != JSON
        check_media_type(request.headers, route.takes, required=is_required)
        parse = parse_json if route.takes == JSON else parse_form
        given: msgspec.Struct = parse(body, route.request)
        return given

    def _response(self, route: Route[Any], answer: _Ready) -> Response:
        if isinstance(answer, _Begun):
            return StreamingResponse(
                self._pieces(answer), route.status.value, media_type=answer.media_type
            )
        reply = answer if isinstance(answer, Reply) else Reply(answer, route.status)
        if reply.content is None:
            return Response(status_code=reply.status.value, headers=dict(reply.headers))
        is_raw = isinstance(reply.content, bytes)
        content = reply.content if is_raw else msgspec.json.encode(reply.content)
        return Response(
            content, reply.status.value, dict(reply.headers), media_type=reply.media_type
        )

    async def _pieces(self, stream: _Begun) -> AsyncIterator[bytes]:
        """The pieces of a stream, each made on a thread that is free again while it is sent."""
        piece = stream.first
        while piece is not None:
            if piece:
                yield piece
            else:
                await anyio.sleep(_PAUSE_SECONDS)
            piece = await self._threads.run(lambda: next(stream.rest, None))

    @cached_property
    def _document(self) -> Response:
        return Response(msgspec.json.encode(openapi_document(ROUTES)), media_type=JSON)

    @cached_property
    def _page(self) -> Response:
        return Response(openapi_page(openapi_document(ROUTES)), media_type="text/html")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A stream whose first piece is there, so that it did not fail at once."""

    first: bytes | None
    rest: Iterator[bytes]
    media_type: str


_Ready = msgspec.Struct | Reply | _Begun | None


def _begun(answer: Answer) -> _Ready:
    if not isinstance(answer, StreamReply):
        return answer
    return _Begun(next(answer.pieces, None), answer.pieces, answer.media_type)


async def _live(receive: Receive, send: Send) -> None:
    """Say that nothing has to be started or stopped."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
