"""An Iceberg REST catalog for tests: a real server on a free port, over a table of names."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

Name = tuple[str, ...]

_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
)


@dataclass
class RestCatalogServer:
    """The names that a catalog lists: each stands for a metadata file.

    `config` is what the server hands out for reaching files, such as vended credentials. The
    metadata in its answers is cut down to nothing: clients are to read the file.
    """

    tables: dict[Name, str] = field(default_factory=dict)
    views: dict[Name, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    uri: str = ""
    #: When each request came.
    asked: list[float] = field(default_factory=list)

    def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
        self.asked.append(time.monotonic())
        url = urlsplit(target)
        parts = [unquote(part) for part in url.path.strip("/").split("/")][1:]
        match [method, *parts]:
            case ["GET", "config"]:
                return _ok({"defaults": {}, "overrides": {}, "endpoints": list(_ENDPOINTS)})
            case ["GET", "namespaces"]:
                parent = parse_qs(url.query).get("parent", [""])[0]
                return _ok({"namespaces": self._namespaces(_split(parent))})
            case ["GET", "namespaces", namespace, "tables" | "views" as kind]:
                return _ok({"identifiers": self._identifiers(kind, _split(namespace))})
            case ["GET", "namespaces", namespace, "tables" | "views" as kind, name]:
                return self._load(kind, (*_split(namespace), name))
            case ["DELETE", "namespaces", namespace, "tables" | "views" as kind, name]:
                del self._names(kind)[(*_split(namespace), name)]
                return HTTPStatus.NO_CONTENT, None
            case _:
                return _not_found("NoSuchNamespaceException", target)

    def _names(self, kind: str) -> dict[Name, str]:
        return self.tables if kind == "tables" else self.views

    def _namespaces(self, parent: Name) -> list[Name]:
        depth = len(parent) + 1
        names = [*self.tables, *self.views]
        inside = {n[:depth] for n in names if n[: len(parent)] == parent and len(n) > depth}
        return sorted(inside)

    def _identifiers(self, kind: str, namespace: Name) -> list[dict[str, Any]]:
        names = [name for name in self._names(kind) if name[:-1] == namespace]
        return [{"namespace": name[:-1], "name": name[-1]} for name in names]

    def _load(self, kind: str, name: Name) -> tuple[HTTPStatus, dict[str, Any] | None]:
        path = self._names(kind).get(name)
        if path is None:
            return _not_found("NoSuchTableException", ".".join(name))
        return _ok({"metadata-location": path, "metadata": {}, "config": dict(self.config)})


def _split(namespace: str) -> Name:
    return tuple(namespace.split("\x1f")) if namespace else ()


def _ok(body: dict[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
    return HTTPStatus.OK, body


def _not_found(kind: str, what: str) -> tuple[HTTPStatus, dict[str, Any]]:
    error = {"message": f"{what} is not there", "type": kind, "code": 404}
    return HTTPStatus.NOT_FOUND, {"error": error}


class _Handler(BaseHTTPRequestHandler):
    catalog: ClassVar[RestCatalogServer]

    def do_GET(self) -> None:
        self._reply("GET")

    def do_DELETE(self) -> None:
        self._reply("DELETE")

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def _reply(self, method: str) -> None:
        status, body = self.catalog.answer(method, self.path)
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def rest_catalog(catalog: RestCatalogServer) -> Iterator[RestCatalogServer]:
    """Serve the catalog; its `uri` is where."""
    handler = type("Handler", (_Handler,), {"catalog": catalog})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        catalog.uri = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield catalog
        finally:
            server.shutdown()
            thread.join()
