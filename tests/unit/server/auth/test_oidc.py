"""Tokens of a real issuer: a server in this test that signs, rotates keys, and fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.clock import ManualClock
from lakesweep.config import OidcSection
from lakesweep.errors import UnreachableError
from lakesweep.server.auth.oidc import InvalidTokenError, OidcVerifier
from tests.moments import NOON
from tests.service import client_of, make_service

AUDIENCE = "lakesweep"


class Issuer(HTTPServer):
    """An issuer with some keys. `requests` are the paths that it was asked for."""

    handler: type[BaseHTTPRequestHandler]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.handler)
        self.keys: dict[str, RSAPrivateKey] = {}
        self.requests: list[str] = []
        self.is_away = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add_key(self, name: str) -> None:
        self.keys[name] = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, key: str = "first", **claims: Any) -> str:
        import time

        usual = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "jane",
            "exp": int(time.time()) + 600,
            "roles": ["lake-admins"],
        }
        return jwt.encode({**usual, **claims}, self.keys[key], "RS256", headers={"kid": key})

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        keys = [
            {**jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name}
            for name, key in self.keys.items()
        ]
        return {"keys": keys}


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.send_response(503 if self.server.is_away else 200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer(self.path)).encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


Issuer.handler = _Handler


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        server.add_key("first")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def verifier(issuer: Issuer, clock: ManualClock) -> OidcVerifier:
    roles = {"lake-admins": "admin", "everyone": "viewer"}
    values = {"issuer": issuer.url, "audience": AUDIENCE, "roles": roles}
    return OidcVerifier(OidcSection.model_validate(values), clock)


def test_a_token_names_its_holder_and_the_highest_of_its_roles(
    verifier: OidcVerifier, issuer: Issuer
) -> None:
    assert verifier.verify(issuer.token()) == ("jane", ServiceRole.ADMIN)
    both = issuer.token(roles=["everyone", "lake-admins", "other"])
    assert verifier.verify(both) == ("jane", ServiceRole.ADMIN)
    assert verifier.verify(issuer.token(roles="everyone other")) == ("jane", ServiceRole.VIEWER)
    assert verifier.verify(issuer.token(roles=["other"])) == ("jane", None)
    assert verifier.verify(issuer.token(roles={"a": 1})) == ("jane", None)


def test_roles_may_be_in_a_claim_within_a_claim(issuer: Issuer, clock: ManualClock) -> None:
    section = OidcSection(
        issuer=issuer.url,
        audience=AUDIENCE,
        roles_claim="realm_access.roles",
        roles={"ops": "operator"},
    )
    token = issuer.token(realm_access={"roles": ["ops"]})
    assert OidcVerifier(section, clock).verify(token) == ("jane", ServiceRole.OPERATOR)


def test_a_token_that_is_not_for_us_is_refused(verifier: OidcVerifier, issuer: Issuer) -> None:
    forged = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "eve", "exp": 4_000_000_000}
    wrong = [
        issuer.token(aud="another"),
        issuer.token(iss="https://evil.example"),
        issuer.token(exp=1),
        jwt.encode(claims, forged, "RS256", headers={"kid": "first"}),
        jwt.encode(claims, "", "none", headers={"kid": "first"}),
        jwt.encode(claims, "s" * 40, "HS256", headers={"kid": "first"}),
        jwt.encode({**claims, "sub": None, "exp": None}, forged, "RS256"),
        "a.b.c",
        issuer.token()[:-4] + "AAAA",
    ]
    for token in wrong:
        with pytest.raises(InvalidTokenError):
            verifier.verify(token)


def test_keys_are_fetched_once_and_again_when_the_issuer_rotates_them(
    verifier: OidcVerifier, issuer: Issuer, clock: ManualClock
) -> None:
    for _ in range(5):
        verifier.verify(issuer.token())
    assert issuer.requests.count("/keys") == 1
    issuer.add_key("second")
    clock.sleep(31)
    assert verifier.verify(issuer.token("second"))[0] == "jane"
    del issuer.keys["first"]
    assert issuer.requests.count("/keys") == 2


def test_made_up_keys_do_not_flood_the_issuer(verifier: OidcVerifier, issuer: Issuer) -> None:
    verifier.verify(issuer.token())
    issuer.add_key("unknown")
    for _ in range(10):
        with pytest.raises(InvalidTokenError):
            verifier.verify(issuer.token("unknown"))
    assert issuer.requests.count("/keys") == 1


def test_known_keys_serve_on_while_the_issuer_is_away(
    verifier: OidcVerifier, issuer: Issuer, clock: ManualClock
) -> None:
    verifier.verify(issuer.token())
    issuer.is_away = True
    clock.sleep(timedelta(hours=1).total_seconds())
    assert verifier.verify(issuer.token())[0] == "jane"


def test_without_any_keys_it_says_that_the_issuer_is_away(
    verifier: OidcVerifier, issuer: Issuer
) -> None:
    issuer.is_away = True
    with pytest.raises(UnreachableError, match="cannot be fetched"):
        verifier.verify(issuer.token())


def test_a_service_takes_tokens_of_its_issuer_and_is_never_open(
    issuer: Issuer, tmp_path: Path
) -> None:
    section = {"issuer": issuer.url, "audience": AUDIENCE, "roles": {"everyone": "viewer"}}
    service = make_service(tmp_path, server={"oidc": section})
    lakes = "/api/v1/lakes"
    assert client_of(service).get(lakes).status_code == 401
    assert client_of(service, issuer.token(roles=["everyone"])).get(lakes).status_code == 200
    assert client_of(service, issuer.token(roles=["other"])).get(lakes).status_code == 403
    assert client_of(service, issuer.token(aud="x")).get(lakes).status_code == 401
    refused = client_of(service, issuer.token(roles=["everyone"])).get("/api/v1/store")
    assert refused.status_code == 403
