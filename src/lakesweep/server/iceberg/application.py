"""Iceberg's REST protocol as an ASGI application, mounted at `/iceberg`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.warehouse.metadata_files import MetadataFiles
from lakesweep.errors import LakesweepError
from lakesweep.server.auth.authentication import ANYONE, Authenticator, Caller
from lakesweep.server.http.bodies import read_body
from lakesweep.server.http.origins import check_host, check_same_site
from lakesweep.server.http.problems import HttpError
from lakesweep.server.http.responses import WATCH, AnswerWatch, Log
from lakesweep.server.http.threads import RequestThreads
from lakesweep.server.iceberg.call import (
    IcebergCall,
    IcebergReply,
    IcebergRoute,
    IcebergRouter,
    IcebergSurroundings,
    parse_parameters,
)
from lakesweep.server.iceberg.envelope import JSON, refusal_of
from lakesweep.server.iceberg.management_routes import MANAGEMENT
from lakesweep.server.iceberg.routes import ENDPOINTS, LOGIN, ROUTES

MOUNT = "/iceberg"
#: Polaris' path of the same.
POLARIS_MOUNT = "/api/catalog"
MANAGEMENT_MOUNT = "/api/management"
#: Expiry of 100,000 snapshots in one commit is the longest request that clients send.
_MOST_BYTES = 64 * 2**20
_WITH_BODY = ("POST", "PUT")
_NOBODY = Caller("-", ServiceRole.VIEWER)
_ROUTER = IcebergRouter((*ROUTES, *MANAGEMENT))


@dataclass
class IcebergService:
    """Answers the requests of Iceberg's clients. All errors have the envelope of the protocol."""

    app: App
    authenticator: Authenticator
    threads: RequestThreads
    host: str
    log: Log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI describes it."""
        request = Request(scope, receive)
        watch: AnswerWatch | None = scope.get(WATCH)
        route: IcebergRoute | None = None
        response: ASGIApp
        try:
            path: bytes = scope["raw_path"]
            mount = _mount(path)
            route, parts = _ROUTER.find(request.method, path.removeprefix(mount.encode()))
            if watch is not None:
                watch.route = f"{mount}{route.template}"
            response = await self._respond(request, route, parts, watch)
        except Exception as error:
            if not isinstance(error, HttpError | LakesweepError | RecursionError):
                self.log(f"unexpected {type(error).__name__}: {error}")
            response = refusal_of(error, is_commit=route is not None and route.is_commit)
        if request.method == "HEAD" and isinstance(response, Response):
            response.body = b""
        await response(scope, receive, send)

    async def _respond(
        self,
        request: Request,
        route: IcebergRoute,
        parts: Mapping[str, bytes],
        watch: AnswerWatch | None,
    ) -> Response:
        check_same_site(request.method, request.headers)
        admit = partial(self._admit, request.headers, route, watch)
        if request.method not in _WITH_BODY:
            # One thread does all of it: to change over costs as much as the work.
            work = partial(self._answer, request, route, parts, watch)
            return await self.threads.run(lambda: work(admit(), b""))
        # Nobody unknown may send a large body.
        caller = await self.threads.run(admit)
        body = await read_body(request, _MOST_BYTES)
        return await self.threads.run(
            lambda: self._answer(request, route, parts, watch, caller, body)
        )

    def _answer(
        self,
        request: Request,
        route: IcebergRoute,
        parts: Mapping[str, bytes],
        watch: AnswerWatch | None,
        caller: Caller,
        body: bytes,
    ) -> Response:
        query = parse_parameters(request.scope.get("query_string", b""))
        target = request.method.encode() + b" " + request.scope["raw_path"]
        address = watch.address if watch is not None else ""
        call = IcebergCall(
            self._around, caller, parts, query, request.headers, body, address, target
        )
        return _response(route.respond(call))

    def _admit(
        self, headers: Mapping[str, str], route: IcebergRoute, watch: AnswerWatch | None
    ) -> Caller:
        """Who calls; whoever logs in says so in the form."""
        if route.template == LOGIN:
            return _NOBODY
        address = watch.address if watch is not None else ""
        caller = self.authenticator.authenticate(headers, address)
        if caller is ANYONE:
            check_host(headers, self.host)
        if watch is not None:
            watch.caller = caller.name
        return caller

    @cached_property
    def _around(self) -> IcebergSurroundings:
        files = MetadataFiles(self.app.stores)
        return IcebergSurroundings(self.app, self.authenticator, files, ENDPOINTS)


def _mount(path: bytes) -> str:
    """What comes before the paths of the table of routes."""
    if path.startswith(MANAGEMENT_MOUNT.encode()):
        return "/api"
    return POLARIS_MOUNT if path.startswith(POLARIS_MOUNT.encode()) else MOUNT


def _response(reply: IcebergReply) -> Response:
    usual = HTTPStatus.NO_CONTENT if reply.body is None else HTTPStatus.OK
    status, headers = reply.status or usual, dict(reply.headers)
    if reply.body is None:
        return Response(status_code=status.value, headers=headers)
    return Response(reply.body, status.value, headers, media_type=JSON)
