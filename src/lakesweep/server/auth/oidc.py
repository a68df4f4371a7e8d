"""Bearer tokens of an OpenID Connect issuer: signed by its keys, for our audience, with roles.

Keys are fetched from the issuer and kept for some time. A token that names an unknown key has them
fetched again, but rarely, so that made-up names cannot make us flood the issuer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode

import jwt
import urllib3
from jwt import PyJWK, PyJWKSet

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.clock import Clock
from lakesweep.config import OidcSection
from lakesweep.errors import UnreachableError

#: Signatures by key pairs only: with a shared secret, a public key could sign.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
_KEPT = timedelta(minutes=10)
_AT_MOST_EVERY = timedelta(seconds=30)
_MOST_BYTES = 1_000_000
_LEEWAY_SECONDS = 60
_TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)


class InvalidTokenError(Exception):
    """A token that the issuer did not sign for us, or that has ended."""


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """What a browser keeps while its user is at the issuer, and nobody else knows.

    `state` ties the answer to this browser, `nonce` the ID token to this attempt, and `verifier`
    (PKCE) the code to who asked for it.
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> SignInAttempt:
        return cls(token_urlsafe(32), token_urlsafe(32), token_urlsafe(48))


@dataclass
class OidcVerifier:
    """Checks tokens of one issuer."""

    section: OidcSection
    clock: Clock
    _keys: Mapping[str, PyJWK] = field(default_factory=dict)
    _fetched: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def verify(self, token: str) -> tuple[str, ServiceRole | None]:
        """Who the token is for, and the highest role that its claims give; None for no role."""
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(str(header.get("kid", "")))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self.section.audience,
                issuer=self.section.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise InvalidTokenError(str(error)) from None
        return str(claims["sub"]), self._role(claims)

    def begin_sign_in(self, redirect: str) -> tuple[SignInAttempt, str]:
        """An attempt to sign in at the issuer, and the address to send the browser to."""
        attempt = SignInAttempt.new()
        challenge = urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self.section.client_id or "",
            "redirect_uri": redirect,
            "scope": "openid profile",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        place = self._endpoint("authorization_endpoint")
        return attempt, f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"

    def finish_sign_in(
        self, attempt: SignInAttempt, code: str, redirect: str
    ) -> tuple[str, ServiceRole | None]:
        """Who signed in, from the ID token that the issuer gives for a code. InvalidTokenError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "client_id": self.section.client_id or "",
            "code_verifier": attempt.verifier,
        }
        found = _fetch(self._endpoint("token_endpoint"), self.section.issuer, form)
        try:
            token = str(found.get("id_token", ""))
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(
                token,
                self._key(str(header.get("kid", ""))),
                algorithms=list(_ALGORITHMS),
                audience=self.section.client_id,
                issuer=self.section.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub", "nonce"]},
            )
        except jwt.PyJWTError as error:
            raise InvalidTokenError(str(error)) from None
        if not hmac.compare_digest(str(claims["nonce"]).encode(), attempt.nonce.encode()):
            raise InvalidTokenError("it was made for another sign-in")
        return str(claims["sub"]), self._role(claims)

    def _endpoint(self, name: str) -> str:
        issuer = self.section.issuer
        found = str(_fetch(_configuration_of(issuer), issuer).get(name, ""))
        if not found.startswith(("https://", "http://")):
            raise _away(issuer, f"it names no {name}")
        return found

    def _role(self, claims: Mapping[str, Any]) -> ServiceRole | None:
        """Claims may be nested, as in `realm_access.roles`."""
        found: Any = claims.get(self.section.roles_claim)
        if found is None:
            found = claims
            for part in self.section.roles_claim.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        names = found.split() if isinstance(found, str) else found
        if not isinstance(names, list):
            return None
        roles = [self.section.roles[str(name)] for name in names if str(name) in self.section.roles]
        held = [role for role in ServiceRole if role.value in roles]
        return held[-1] if held else None

    def _key(self, name: str) -> PyJWK:
        with self._lock:
            now = self.clock.now()
            age = None if self._fetched is None else now - self._fetched
            is_stale = age is None or age > _KEPT
            may_ask = age is None or age > _AT_MOST_EVERY
            if is_stale or (name not in self._keys and may_ask):
                self._refresh(now)
            if name not in self._keys:
                raise InvalidTokenError("it is signed by a key that the issuer does not have")
            return self._keys[name]

    def _refresh(self, now: datetime) -> None:
        try:
            self._keys = _fetch_keys(self.section.issuer)
        except UnreachableError:
            # Known keys serve on while the issuer is away; without any, nobody can be checked.
            if not self._keys:
                raise
        self._fetched = now


def _fetch_keys(issuer: str) -> Mapping[str, PyJWK]:
    found = _fetch(_configuration_of(issuer), issuer)
    try:
        keys = PyJWKSet.from_dict(_fetch(str(found["jwks_uri"]), issuer))
    except (KeyError, jwt.PyJWTError) as error:
        raise _away(issuer, f"its answer is not usable: {error}") from None
    return {str(key.key_id): key for key in keys.keys if key.key_id is not None}


def _configuration_of(issuer: str) -> str:
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def _fetch(url: str, issuer: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON of an address, or what it answers to a form."""
    # A code can be sent once only, so that is not tried again.
    sent: dict[str, Any] = {}
    if form is not None:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        sent = {"body": urlencode(form), "headers": kind}
    retries = 1 if form is None else False
    method = "GET" if form is None else "POST"
    try:
        with urllib3.PoolManager(timeout=_TIMEOUT, retries=retries) as pool:
            answer = pool.request(method, url, redirect=False, preload_content=False, **sent)
            body = answer.read(_MOST_BYTES + 1)
            answer.close()
    except urllib3.exceptions.HTTPError as error:
        raise _away(issuer, type(error).__name__) from error
    if answer.status != 200 or len(body) > _MOST_BYTES:
        raise _away(issuer, f"it answers {answer.status} with {len(body):,} bytes")
    try:
        found = json.loads(body)
    except ValueError:
        raise _away(issuer, "it does not answer with JSON") from None
    return found if isinstance(found, dict) else {}


def _away(issuer: str, reason: str) -> UnreachableError:
    return UnreachableError(
        f"the keys of the issuer {issuer} cannot be fetched: {reason}",
        hint="check [server.oidc] issuer, and that the issuer is running",
    )
