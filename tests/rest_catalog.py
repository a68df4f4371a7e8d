"""An Iceberg REST catalog for tests: a real server on a free port, over a table of names."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import msgspec
from msgspec import Raw

from lakesweep.errors import CommitConflictError, InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.file_names import write_metadata_name
from lakesweep.iceberg.document.requirements import (
    check_requirements,
    decode_table_requirements,
)
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import decode_table_updates

Name = tuple[str, ...]

_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
)
_POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"


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
    #: What the clients of changes showed.
    shown_tokens: list[str] = field(default_factory=list)
    #: Policies as Polaris attaches them: to () for the catalog, to a namespace, or to a table, each
    #: with its type and its content. None is a server that knows no policies.
    policies: dict[Name, dict[str, str]] | None = None
    #: What a server answers that has policies and does not tell them.
    policy_failure: HTTPStatus | None = None

    def commit(self, _name: Name, _body: bytes) -> tuple[HTTPStatus, dict[str, Any]] | None:
        """The answer to a commit; None ends the connection without one."""
        error = {"message": "read only", "type": "NotAllowed", "code": 405}
        return HTTPStatus.METHOD_NOT_ALLOWED, {"error": error}

    def answer_post(
        self, target: str, body: bytes
    ) -> tuple[HTTPStatus, dict[str, Any] | None] | None:
        parts = [unquote(part) for part in urlsplit(target).path.strip("/").split("/")][1:]
        match parts:
            case ["namespaces", namespace, "tables", name]:
                return self.commit((*_split(namespace), name), body)
            case _:
                return _not_found("NoSuchNamespaceException", target)

    def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
        self.asked.append(time.monotonic())
        url = urlsplit(target)
        parts = [unquote(part) for part in url.path.strip("/").split("/")][1:]
        match [method, *parts]:
            case ["GET", "config"]:
                more = [] if self.policies is None else [_POLICIES]
                offered = [*_ENDPOINTS, *more]
                return _ok({"defaults": {}, "overrides": {}, "endpoints": offered})
            case ["GET", "v1", "applicable-policies"]:
                return self._applicable(parse_qs(url.query))
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

    def _applicable(self, query: dict[str, list[str]]) -> tuple[HTTPStatus, dict[str, Any]]:
        """The nearest policy of each type, one a page, as Polaris answers."""
        if self.policy_failure is not None:
            return self.policy_failure, {"error": {"message": "no", "type": "F", "code": 403}}
        table = (*_split(query["namespace"][0]), query["target-name"][0])
        found: dict[str, dict[str, Any]] = {}
        for depth in range(len(table), -1, -1):
            for type_, content in (self.policies or {}).get(table[:depth], {}).items():
                policy = {
                    "policy-type": type_,
                    "name": f"p{depth}",
                    "namespace": list(table[:1]),
                    "inheritable": True,
                    "inherited": depth < len(table),
                    "version": 0,
                    "content": content,
                }
                found.setdefault(type_, policy)
        start = int(query.get("page-token", ["0"])[0])
        page = list(found.values())[start : start + 1]
        token = str(start + 1) if start + 1 < len(found) else None
        return _ok({"applicable-policies": page, "next-page-token": token})

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
        return _ok(
            {
                "metadata-location": path,
                "metadata": self.metadata(path),
                "config": dict(self.config),
            }
        )

    def metadata(self, _path: str) -> dict[str, Any]:
        """The metadata in the answer to a load."""
        return {}


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

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.catalog.shown_tokens.append(self.headers.get("Authorization", ""))
        answer = self.catalog.answer_post(self.path, body)
        if answer is not None:  # HTTP/1.0: the connection ends in any case
            self._send(*answer)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def _reply(self, method: str) -> None:
        self._send(*self.catalog.answer(method, self.path))

    def _send(self, status: HTTPStatus, body: dict[str, Any] | None) -> None:
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


@dataclass
class WritableRestCatalog(RestCatalogServer):
    """The same with commits to tables in local files, in the ways of several servers.

    `meanwhile` is called when a commit has come, before its base is read: there another writer fits
    in. `takes_one` is Iceberg up to 1.8, which removes one snapshot in each update; `shows_log` is
    off for servers that keep no log. The next answers are lost, garbled, or failures, as often as
    `loses`, `garbles` and `fails` say; a lost or garbled commit is done, a failed one is not.
    """

    meanwhile: Callable[[], None] = lambda: None
    takes_one: bool = False
    shows_log: bool = True
    loses: int = 0
    garbles: int = 0
    fails: int = 0
    #: How many commits were done, and how many snapshots each removed.
    removed: list[int] = field(default_factory=list)
    #: A commit starts from the state that the one before left, as with every real server.
    turn: threading.Lock = field(default_factory=threading.Lock)

    def metadata(self, path: str) -> dict[str, Any]:
        return dict(json.loads(Path(path.removeprefix("file://")).read_bytes()))

    def commit(self, name: Name, body: bytes) -> tuple[HTTPStatus, dict[str, Any]] | None:
        self.meanwhile()
        if self.fails:
            self.fails -= 1
            return _failed(HTTPStatus.SERVICE_UNAVAILABLE, "busy")
        updates = json.loads(body)["updates"]
        sizes = [len(each.get("snapshot-ids", ())) for each in updates]
        if self.takes_one and max(sizes) > 1:
            words = (
                f"Invalid set of snapshot ids to remove. Expected one value but received: {sizes}"
            )
            return _failed(HTTPStatus.BAD_REQUEST, words)
        try:
            with self.turn:
                answer = self._apply(name, body)
        except CommitConflictError as error:
            return _failed(HTTPStatus.CONFLICT, error.message)
        except InvalidUpdateError as error:
            return _failed(HTTPStatus.BAD_REQUEST, error.message)
        self.removed.append(sum(sizes))
        if self.loses:
            self.loses -= 1
            return None
        if self.garbles:
            self.garbles -= 1
            return HTTPStatus.OK, {"metadata-location": answer["metadata-location"]}
        return HTTPStatus.OK, answer

    def _apply(self, name: Name, body: bytes) -> dict[str, Any]:
        request = msgspec.json.decode(body, type=dict[str, Raw])
        base = self.tables[name]
        document = RawDocument.parse(base, Path(base.removeprefix("file://")).read_bytes())
        check_requirements(document, decode_table_requirements(request["requirements"]))
        updates = decode_table_updates(request["updates"])
        now_ms = int(time.time() * 1000)
        after = apply_table_updates(document, updates, now_ms=now_ms, location=base)
        path = base
        if after is not document:
            path = write_metadata_name(after, base, str(uuid4()))
            Path(path.removeprefix("file://")).write_bytes(after.encode())
            self.tables[name] = path
        metadata = self.metadata(path)
        if not self.shows_log:
            del metadata["metadata-log"]
        return {"metadata-location": path, "metadata": metadata}


def _failed(status: HTTPStatus, message: str) -> tuple[HTTPStatus, dict[str, Any]]:
    error = {"message": message, "type": "SomeException", "code": int(status)}
    return status, {"error": error}
