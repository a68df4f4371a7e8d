"""The console as an ASGI application: sessions, forms and pages over the API's own handlers.

A page may be read and a form sent with the same roles as the API. Answers allow no script, style or
image but our own files, and no other site may send our forms or frame our pages.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import anyio
import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.errors import LakesweepError
from lakesweep.server.api.call import FORM, Answer, Call, Reply, Route, StreamReply, Surroundings
from lakesweep.server.api.router import ApiRouter
from lakesweep.server.auth.authentication import ANYONE, Caller, check_role
from lakesweep.server.console import issuer_sign_in
from lakesweep.server.console.browser_session import BrowserSession, set_cookie
from lakesweep.server.console.issuer_sign_in import CallbackRequest
from lakesweep.server.console.rendering import STATIC, render
from lakesweep.server.console.routes import EVENTS, PAGES
from lakesweep.server.console.view import PageView, encoded, go_to
from lakesweep.server.http.bodies import check_media_type, parse_form, parse_query, read_body
from lakesweep.server.http.origins import check_host, check_same_site
from lakesweep.server.http.problems import HttpError, ProblemDocument, problem_of
from lakesweep.server.http.responses import WATCH, AnswerWatch

_HTML = "text/html; charset=utf-8"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Browsers would send forms with the origin null if they had to hide it from us as well.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_FOREVER = "public, max-age=31536000, immutable"
_THREADS = 8
_CALL_SECONDS = 60.0
#: How often live parts are looked at, and how often until the browser has to ask again.
_EVENT_SECONDS = 1.0
_MOST_EVENTS = 600
_MOST_FIELDS = 100
_SIGN_IN, _SIGN_OUT = "/sign-in", "/sign-out"
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*")
_NOTICES: Mapping[str, str] = {
    "approved": "The plan is approved: the next sweep applies it.",
    "rejected": "The plan is rejected and will never be applied.",
    "cancelled": "The run was asked to stop. What it deleted stays deleted.",
    "applying": "The apply waits for the next free worker. Files are set aside, not deleted.",
    "changed": "The schedule is changed.",
    "removed": "The schedule is removed.",
    "queued": "The job waits for the next free worker.",
    "restored": "The file was restored.",
    "paused": "The schedule is paused.",
    "resumed": "The schedule runs again.",
    "revoked": "The token is revoked, and all sessions that were begun with it.",
    "signed-out": "You are signed out.",
}

Result = TypeVar("Result")


class SignInForm(msgspec.Struct, frozen=True, kw_only=True):
    """A token, or the client credentials of a principal; and the page to show then."""

    token: str = ""
    client_id: str = ""
    client_secret: str = ""
    next: str = "/"


class SignInRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The page to show after the sign-in."""

    next: str = "/"


class FormKey(msgspec.Struct, frozen=True, kw_only=True):
    """What every form carries."""

    form_key: str = ""


@dataclass
class _Visit:
    """One request of a browser."""

    request: Request
    session: BrowserSession
    watch: AnswerWatch | None
    caller: Caller | None = None
    query: bytes = b""
    notice: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        path: bytes = self.request.scope["raw_path"]
        return path.decode("latin-1")

    @property
    def address(self) -> str:
        if self.watch is not None:
            return self.watch.address
        return self.request.client.host if self.request.client else ""


class Console:
    """Answers browsers. `host` is what the service listens on."""

    def __init__(
        self,
        around: Surroundings,
        host: str,
        *,
        is_secure: bool,
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._around = around
        self._log = log
        self._host = host
        self._is_secure = is_secure
        self._router = ApiRouter(PAGES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI describes it."""
        request = Request(scope, receive)
        if scope["path"].startswith("/static/"):
            response = _static(scope["path"].removeprefix("/static/"))
        else:
            response = await self._answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        session = BrowserSession.of(request.headers, is_secure=self._is_secure)
        visit = _Visit(request, session, request.scope.get(WATCH))
        try:
            visit.query, visit.notice = _query(request.scope.get("query_string", b""))
            response = await self._respond(visit)
        except HttpError as error:
            response = self._problem(visit, error.problem)
            response.headers.update(error.headers)
        except LakesweepError as error:
            response = self._problem(visit, problem_of(error))
        except Exception as error:
            self._log(f"unexpected {type(error).__name__} at {visit.path}: {error}")
            unexpected = HttpError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "an unexpected error", hint="see the log"
            )
            response = self._problem(visit, unexpected.problem)
        if session.is_new and "set-cookie" not in response.headers:
            response.headers["set-cookie"] = set_cookie(session.secret, is_secure=self._is_secure)
        return response

    async def _respond(self, visit: _Visit) -> Response:
        request = visit.request
        check_same_site(request.method, request.headers)
        if visit.path == _SIGN_IN:
            return await self._sign_in(visit)
        if visit.path in (issuer_sign_in.BEGIN, issuer_sign_in.CALLBACK):
            return await self._sign_in_at_issuer(visit)
        visit.caller = await self._on_thread(lambda: self._caller(visit.session.secret))
        if visit.caller is ANYONE:
            check_host(request.headers, self._host)
        if visit.caller is None:
            return self._stranger(visit)
        if visit.watch is not None:
            visit.watch.caller = visit.caller.name
        if visit.path == _SIGN_OUT:
            return await self._sign_out(visit, visit.caller)
        return await self._page(visit, visit.caller)

    def _caller(self, secret: str) -> Caller | None:
        authenticator = self._around.authenticator
        known = authenticator.caller_of(secret)
        return ANYONE if known is None and authenticator.is_open else known

    def _stranger(self, visit: _Visit) -> Response:
        """Someone who has to sign in first."""
        if visit.request.method not in ("GET", "HEAD"):
            raise HttpError(HTTPStatus.UNAUTHORIZED, "you are not signed in", hint="sign in again")
        self._router.find(visit.request.method, visit.request.scope["raw_path"])
        return _reply(go_to(f"{_SIGN_IN}?next={encoded(visit.path)}"))

    async def _page(self, visit: _Visit, caller: Caller) -> Response:
        request = visit.request
        route, names = self._router.find(request.method, request.scope["raw_path"])
        if visit.watch is not None:
            visit.watch.route = route.path
        check_role(caller, route.role or ServiceRole.VIEWER)
        given = await self._given(visit, route)
        call = Call(self._around, caller, names, given, visit.address)
        if route.media_types == (EVENTS,):
            first = await self._part(visit, route, call)
            return StreamingResponse(self._events(visit, route, call, first), media_type=EVENTS)
        return await self._on_thread(lambda: self._response(visit, route.handler(call)))

    async def _given(self, visit: _Visit, route: Route[Any]) -> msgspec.Struct:
        """The parameters of a page, or the fields of a form that this browser was given."""
        if not route.has_body:
            found: msgspec.Struct = parse_query(visit.query, route.request)
            return found
        body = await self._form(visit)
        given: msgspec.Struct = parse_form(body, route.request)
        return given

    async def _form(self, visit: _Visit) -> bytes:
        body = await read_body(visit.request)
        check_media_type(visit.request.headers, FORM, required=True)
        visit.session.check_form(parse_form(body, FormKey).form_key)
        return body

    def _response(self, visit: _Visit, answer: Answer) -> Response:
        if isinstance(answer, PageView):
            return Response(self._render(visit, answer), answer.status, media_type=_HTML)
        if isinstance(answer, StreamReply):
            return StreamingResponse(self._pieces(answer), media_type=answer.media_type)
        if isinstance(answer, Reply):
            return _reply(answer)
        raise TypeError(type(answer))

    async def _pieces(self, stream: StreamReply) -> AsyncIterator[bytes]:
        while True:
            piece = await self._on_thread(lambda: next(stream.pieces, None))
            if piece is None:
                return
            yield piece

    async def _part(self, visit: _Visit, route: Route[Any], call: Call[Any]) -> tuple[bytes, bool]:
        """A live part of a page as it is now, and whether it has come to its end."""

        def look() -> tuple[bytes, bool]:
            view = route.handler(call)
            if not isinstance(view, PageView):
                raise TypeError(type(view))
            return self._render(visit, view), view.is_over

        return await self._on_thread(look)

    async def _events(
        self, visit: _Visit, route: Route[Any], call: Call[Any], first: tuple[bytes, bool]
    ) -> AsyncIterator[bytes]:
        """A live part each time that it changes."""
        shown, (part, is_over) = b"", first
        for _ in range(_MOST_EVENTS):
            yield _event(part) if part != shown else b":\n\n"
            shown = part
            if is_over:
                yield b"event: end\ndata: end\n\n"
                return
            await anyio.sleep(_EVENT_SECONDS)
            if self._around.is_stopping():
                return
            part, is_over = await self._part(visit, route, call)

    async def _sign_in(self, visit: _Visit) -> Response:
        if visit.watch is not None:
            visit.watch.route = _SIGN_IN
        if visit.request.method in ("GET", "HEAD"):
            wanted = parse_query(visit.query, SignInRequest).next
            return self._response(visit, self._sign_in_page({"next": wanted}))
        form = parse_form(await self._form(visit), SignInForm)
        authenticator, address = self._around.authenticator, visit.address
        if form.client_id:
            begin = lambda: authenticator.log_in(form.client_id, form.client_secret, address)  # noqa: E731
        else:
            begin = lambda: authenticator.begin_session(form.token.strip(), address)  # noqa: E731
        try:
            made = await self._on_thread(begin)
        except HttpError as error:
            values = {"next": form.next, "problem": str(error)}
            return self._response(visit, self._sign_in_page(values, error.status))
        response = _reply(go_to(form.next if _OWN_PATH.fullmatch(form.next) else "/"))
        response.headers["set-cookie"] = set_cookie(
            made.access_token, is_secure=self._is_secure, seconds=made.expires_in
        )
        return response

    def _sign_in_page(self, values: dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> PageView:
        section = self._around.app.config.server.oidc
        issuer = None if section is None or section.client_id is None else section.issuer
        return PageView(
            template="sign_in.html",
            title="Sign in",
            values={**values, "issuer": issuer},
            status=status.value,
        )

    async def _sign_in_at_issuer(self, visit: _Visit) -> Response:
        """Send a browser to the issuer, or begin the session of one that comes back."""
        request, authenticator = visit.request, self._around.authenticator
        if request.method not in ("GET", "HEAD"):
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "this address is only to be read")
        back = issuer_sign_in.redirect_address(request.headers, is_secure=self._is_secure)
        if visit.path == issuer_sign_in.BEGIN:
            address, cookie = await self._on_thread(
                lambda: issuer_sign_in.begin(authenticator, back, is_secure=self._is_secure)
            )
            response = _reply(go_to(address))
            response.headers["set-cookie"] = cookie
            return response
        given = parse_form(visit.query, CallbackRequest)
        headers = request.headers
        made = await self._on_thread(
            lambda: issuer_sign_in.finish(authenticator, given, headers, back, visit.address)
        )
        # The session's cookie is strict: a redirect from the issuer would not send it, a page does.
        view = PageView(template="signed_in.html", title="Signed in")
        response = self._response(visit, view)
        response.headers["set-cookie"] = set_cookie(
            made.access_token, is_secure=self._is_secure, seconds=made.expires_in
        )
        response.headers.append("set-cookie", issuer_sign_in.forget(is_secure=self._is_secure))
        return response

    async def _sign_out(self, visit: _Visit, caller: Caller) -> Response:
        if visit.request.method != "POST":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "signing out takes a form")
        await self._form(visit)
        authenticator, secret = self._around.authenticator, visit.session.secret
        if caller is not ANYONE:
            await self._on_thread(lambda: authenticator.end_session(secret, caller.name))
        response = _reply(go_to(f"{_SIGN_IN}?done=signed-out"))
        response.headers["set-cookie"] = set_cookie("", is_secure=self._is_secure, seconds=0)
        return response

    def _problem(self, visit: _Visit, problem: ProblemDocument) -> Response:
        view = PageView(
            template="problem.html",
            title=problem.title,
            values={"problem": problem},
            status=problem.status,
        )
        return Response(self._render(visit, view), problem.status, media_type=_HTML)

    def _render(self, visit: _Visit, view: PageView) -> bytes:
        caller = visit.caller
        around = {
            "title": view.title,
            "api": view.api,
            "command": view.command,
            "is_live": view.is_live,
            "caller": caller,
            "is_open": caller is ANYONE,
            "may": lambda role: caller is not None and caller.covers(ServiceRole(role)),
            "form_key": visit.session.form_key,
            "path": visit.path,
            "query": dict(parse_qsl(visit.query.decode("latin-1"))),
            "notice": _NOTICES.get(visit.notice or ""),
        }
        return render(view.template, {**view.values, **around})

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        try:
            with anyio.fail_after(_CALL_SECONDS):
                return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        except TimeoutError:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the page took too long") from None

    @cached_property
    def _threads(self) -> CapacityLimiter:
        return CapacityLimiter(_THREADS)


def _query(text: bytes) -> tuple[bytes, str | None]:
    """The query of a page without the fields that a form left blank, and the notice in it."""
    try:
        pairs = parse_qsl(text.decode("latin-1"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the query has too many fields") from None
    notice = next((value for name, value in pairs if name == "done"), None)
    return urlencode([pair for pair in pairs if pair[0] != "done"]).encode(), notice


def _event(part: bytes) -> bytes:
    lines = b"".join(b"data: " + line + b"\n" for line in part.splitlines())
    return lines + b"\n"


def _reply(reply: Reply) -> Response:
    content = reply.content if isinstance(reply.content, bytes) else b""
    return Response(content, reply.status.value, dict(reply.headers))


def _static(name: str) -> Response:
    if name not in STATIC:
        return Response(status_code=HTTPStatus.NOT_FOUND.value)
    kind, content = STATIC[name]
    return Response(content, headers={"cache-control": _FOREVER}, media_type=kind)
