"""A service in this process, over a store in memory, for tests of its HTTP side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from lakesweep.app import App
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.config.file import config_from_values
from lakesweep.operations.catalogs.tokens import CreateTokenRequest, create_token
from lakesweep.server.application import Service, ServiceOptions, create_app


def make_service(
    folder: Path, *, host: str = "127.0.0.1", has_console: bool = False, **settings: Any
) -> Service:
    """A service over a new store, with one lake that was never planned."""
    values = {
        "store": {"url": "memory:"},
        "lakes": {"prod": {"locations": [str(folder / "lake")], "roots": []}},
        **settings,
    }
    (folder / "lake").mkdir(exist_ok=True)
    app = App(config_from_values(values), folder=folder)
    return create_app(app, ServiceOptions(host=host, has_console=has_console))


@dataclass(frozen=True)
class ServiceClient:
    """Calls a service in this process. Paths are sent as they are."""

    service: Service
    headers: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **given))

    async def _request(self, method: str, path: str, **given: Any) -> httpx.Response:
        given["headers"] = {**self.headers, **given.get("headers", {})}
        transport = httpx.ASGITransport(self.service, client=("127.0.0.1", 50_000))
        url = f"http://{self.host}:8080"
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            return await client.request(method, path, **given)

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)

    def put(self, path: str, **given: Any) -> httpx.Response:
        return self.request("PUT", path, **given)

    def delete(self, path: str, **given: Any) -> httpx.Response:
        return self.request("DELETE", path, **given)


def client_of(service: Service, token: str | None = None, host: str = "127.0.0.1") -> ServiceClient:
    """A client of it; with a token, one that sends it each time."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return ServiceClient(service, headers, host)


def tokens_of(service: Service) -> Mapping[ServiceRole, str]:
    """A token for each role, which closes the service to everyone else."""
    return {
        role: create_token(service.app, CreateTokenRequest(f"a {role}", role)).text
        for role in ServiceRole
    }


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """The same on a real port, for clients that open connections; its address."""
    config = uvicorn.Config(service, host="127.0.0.1", port=0, log_level="error", http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
