"""Sign-in at an OpenID Connect issuer: the authorization code flow with PKCE, state and nonce.

What must come back unchanged is kept in a cookie of its own. The session's cookie is strict, and a
browser that comes from the issuer does not send it; this one is sent with such a navigation, lives
for ten minutes, and gives access to nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

import msgspec

from lakesweep.server.auth.authentication import AccessToken, Authenticator
from lakesweep.server.auth.oidc import SignInAttempt
from lakesweep.server.http.problems import HttpError

BEGIN, CALLBACK = "/sign-in/issuer", "/sign-in/callback"
_COOKIE = "lakesweep-sign-in"
_SECONDS = 600


class CallbackRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the issuer sends a browser back with: a code, or what went wrong."""

    state: str = ""
    code: str = ""
    error: str = ""


def redirect_address(headers: Mapping[str, str], *, is_secure: bool) -> str:
    """Where the issuer sends the browser back to: this console, by the name it is known by."""
    scheme = "https" if is_secure else "http"
    return f"{scheme}://{headers.get('host', '')}{CALLBACK}"


def begin(authenticator: Authenticator, redirect: str, *, is_secure: bool) -> tuple[str, str]:
    """The address of the issuer, and the cookie that ties its answer to this browser."""
    if authenticator.oidc is None or authenticator.oidc.section.client_id is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "no issuer is configured for the console")
    attempt, address = authenticator.oidc.begin_sign_in(redirect)
    value = f"{attempt.state}.{attempt.nonce}.{attempt.verifier}"
    return address, _cookie(value, _SECONDS, is_secure=is_secure)


def finish(
    authenticator: Authenticator,
    given: CallbackRequest,
    headers: Mapping[str, str],
    redirect: str,
    address: str,
) -> AccessToken:
    """The session of a browser that came back. HttpError if this browser did not begin it."""
    attempt = _attempt(headers)
    is_same = attempt is not None and hmac.compare_digest(
        given.state.encode(), attempt.state.encode()
    )
    if attempt is None or not is_same:
        raise HttpError(
            HTTPStatus.FORBIDDEN,
            "this sign-in was not begun in this browser, or too long ago",
            hint="sign in again",
        )
    if given.error or not given.code:
        reason = given.error or "no code"
        raise HttpError(HTTPStatus.UNAUTHORIZED, f"the issuer refused: {reason[:200]}")
    return authenticator.begin_oidc_session(attempt, given.code, redirect, address)


def forget(*, is_secure: bool) -> str:
    """The header that removes the cookie: each attempt is finished once."""
    return _cookie("", 0, is_secure=is_secure)


def _attempt(headers: Mapping[str, str]) -> SignInAttempt | None:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return None
    parts = cookies[_COOKIE].value.split(".") if _COOKIE in cookies else []
    return SignInAttempt(*parts) if len(parts) == 3 and all(parts) else None


def _cookie(value: str, seconds: int, *, is_secure: bool) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{_COOKIE}={value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"
