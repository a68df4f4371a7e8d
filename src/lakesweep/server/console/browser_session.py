"""The session of a browser: one cookie, and the key of its forms.

The cookie holds a token that the store knows by its hash only, or, as long as nobody signed in, a
random text. Each form carries a key that is derived from it, so another site, which cannot read the
cookie, cannot send a form. Whoever reads a page learns nothing that signs them in elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe

from lakesweep.server.http.problems import HttpError

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """What the cookie of a browser holds; `is_new` if it has none yet."""

    secret: str
    is_new: bool

    @classmethod
    def of(cls, headers: Mapping[str, str], *, is_secure: bool) -> BrowserSession:
        """The session that a request belongs to, or a new one that nobody signed in to."""
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        found = cookies.get(_name(is_secure=is_secure))
        if found is None or not 16 <= len(found.value) <= _LONGEST:
            return cls(token_urlsafe(32), is_new=True)
        return cls(found.value, is_new=False)

    @property
    def form_key(self) -> str:
        """What every form must carry."""
        return hashlib.sha256(f"form {self.secret}".encode()).hexdigest()

    def check_form(self, key: str) -> None:
        """HttpError (403) unless a form was made for this browser."""
        if self.is_new or not hmac.compare_digest(key.encode(), self.form_key.encode()):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "this form is not from this session",
                hint="load the page again, and allow cookies of this site",
            )


def set_cookie(secret: str, *, is_secure: bool, seconds: int | None = None) -> str:
    """The header that gives a browser its cookie; until it is closed if no time is given."""
    secure = "; Secure" if is_secure else ""
    age = "" if seconds is None else f"; Max-Age={seconds}"
    name = _name(is_secure=is_secure)
    return f"{name}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{age}"


def _name(*, is_secure: bool) -> str:
    # With this prefix, browsers accept the cookie over TLS and from this very host only.
    return "__Host-lakesweep" if is_secure else "lakesweep"
