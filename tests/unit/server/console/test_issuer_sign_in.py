"""Signing in at an issuer: a server in this test that gives codes, and checks who redeems them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest

from lakesweep.server.application import Service
from tests.service import make_service
from tests.unit.server.auth.test_oidc import AUDIENCE, Issuer, _Handler

_CLIENT = "console"


class _CodeHandler(_Handler):
    def do_POST(self) -> None:  # noqa: N802 - as http.server names it
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        answer = self.server.redeem(form)  # type: ignore[attr-defined]
        self.send_response(200 if answer else 400)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


class CodeIssuer(Issuer):
    """An issuer whose users are always jane. `claims` are added to the next ID token."""

    handler = _CodeHandler

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, str] = {}
        self.claims: dict[str, Any] = {}

    def answer(self, path: str) -> dict[str, Any]:
        found = super().answer(path)
        if path.startswith("/.well-known"):
            found |= {"authorization_endpoint": f"{self.url}/authorize"}
            found |= {"token_endpoint": f"{self.url}/token"}
        return found

    def authorize(self, address: str) -> str:
        """What a browser is sent back with after its user has signed in."""
        assert address.startswith(f"{self.url}/authorize?")
        self.asked = {name: each[0] for name, each in parse_qs(urlsplit(address).query).items()}
        return f"state={self.asked['state']}&code=the-code"

    def redeem(self, form: dict[str, str]) -> dict[str, str]:
        """An ID token for the code, for who can show what the challenge was made of."""
        made = hashlib.sha256(form["code_verifier"].encode()).digest()
        is_own = urlsafe_b64encode(made).decode().rstrip("=") == self.asked["code_challenge"]
        same = ("client_id", "redirect_uri")
        if not is_own or form["code"] != "the-code" or any(form[n] != self.asked[n] for n in same):
            return {}
        claims = {"aud": _CLIENT, "nonce": self.asked["nonce"], **self.claims}
        return {"id_token": self.token(**claims), "token_type": "Bearer"}


@pytest.fixture
def issuer() -> Iterator[CodeIssuer]:
    with CodeIssuer() as server:
        server.add_key("first")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def service(issuer: CodeIssuer, tmp_path: Path) -> Service:
    oidc = {"issuer": issuer.url, "audience": AUDIENCE, "roles": {"lake-admins": "operator"}}
    return make_service(tmp_path, has_console=True, server={"oidc": {**oidc, "client_id": _CLIENT}})


class IssuedBrowser:
    """A browser that keeps cookies, and sends those of a path only there."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cookies = httpx.Cookies()

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._get(path))

    async def _get(self, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.service, client=("127.0.0.1", 50_000))
        url = "http://127.0.0.1:8080"
        async with httpx.AsyncClient(
            transport=transport, base_url=url, cookies=self.cookies
        ) as client:
            answer = await client.get(path)
            self.cookies = client.cookies
            return answer


def test_people_sign_in_at_the_issuer(service: Service, issuer: CodeIssuer) -> None:
    browser = IssuedBrowser(service)
    assert "/sign-in/issuer" in browser.get("/sign-in").text
    begun = browser.get("/sign-in/issuer")
    assert begun.status_code == 303
    back = issuer.authorize(begun.headers["location"])
    assert issuer.asked["redirect_uri"] == "http://127.0.0.1:8080/sign-in/callback"
    assert issuer.asked["code_challenge_method"] == "S256"
    done = browser.get(f"/sign-in/callback?{back}")
    assert done.status_code == 200
    assert "SameSite=Strict" in done.headers.get_list("set-cookie")[0]
    page = browser.get("/runs")
    assert page.status_code == 200
    assert "jane (operator)" in page.text
    assert browser.get("/access").status_code == 403
    # An attempt is over once it was finished.
    assert browser.get(f"/sign-in/callback?{back}").status_code == 403


def test_an_answer_that_this_browser_did_not_ask_for_signs_nobody_in(
    service: Service, issuer: CodeIssuer
) -> None:
    begun = IssuedBrowser(service).get("/sign-in/issuer")
    back = issuer.authorize(begun.headers["location"])
    stranger = IssuedBrowser(service)
    assert stranger.get(f"/sign-in/callback?{back}").status_code == 403
    stranger.get("/sign-in/issuer")
    assert stranger.get(f"/sign-in/callback?{back}").status_code == 403
    assert stranger.get("/runs").status_code == 303


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"nonce": "another"}, 401),
        ({"aud": AUDIENCE}, 401),
        ({"iss": "http://elsewhere"}, 401),
        ({"exp": 1}, 401),
        ({"roles": ["nobody"]}, 403),
    ],
)
def test_an_id_token_must_be_made_for_this_sign_in(
    service: Service, issuer: CodeIssuer, claims: dict[str, Any], status: int
) -> None:
    browser = IssuedBrowser(service)
    back = issuer.authorize(browser.get("/sign-in/issuer").headers["location"])
    issuer.claims = claims
    assert browser.get(f"/sign-in/callback?{back}").status_code == status
    assert browser.get("/runs").status_code == 303


def test_without_a_client_there_is_no_such_sign_in(tmp_path: Path) -> None:
    browser = IssuedBrowser(make_service(tmp_path, has_console=True))
    assert browser.get("/sign-in/issuer").status_code == 404
    assert "/sign-in/issuer" not in browser.get("/sign-in").text
