"""A lakeFS server that answers what a real one answered, over HTTP, from the recorded repositories.

It speaks the calls that are of use to us: repositories, branches, commits, listings, refs dumps and
the files of ranges. A listing of a branch is its HEAD with what is staged, as the real one's.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from tests.lakefs import RealRepositories, RealRepository

KEY, SECRET = "key", "secret"
_AUTHORIZATION = "Basic " + base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
_API = "/api/v1/repositories/"
#: So many pages are made of a listing at most, and so many rows of a page at least.
_PAGES, _PAGE_ROWS = 10, 20


class NoSuchThingError(Exception):
    """The server answers 404."""


def variables_of(endpoint: str) -> dict[str, str]:
    """The variables by which lakeFS' own tools find a server."""
    return {
        "LAKECTL_SERVER_ENDPOINT_URL": endpoint,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": KEY,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
    }


@dataclass
class RecordedServer:
    """What the server knows, where it is, and what it was asked.

    Old servers looked for commits first, by the beginnings of their ids, and then for branches.
    """

    repositories: RealRepositories
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    known: dict[str, RealRepository] = field(default_factory=dict)
    is_old: bool = True

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which lakeFS' own tools find it."""
        return variables_of(self.endpoint)

    def answer(self, path: str, query: Mapping[str, str]) -> bytes:
        """What the server says to a call on a repository."""
        if path == _API.rstrip("/"):
            told = [each.answer("repository")["repository"] for each in self.known.values()]
            return json.dumps(page_of(told, "id", query)).encode()
        name, _, call = path.removeprefix(_API).partition("/")
        repository = self.known.setdefault(name, self.repositories.repository(name))
        if not repository.oracle.exists():
            raise NoSuchThingError(f"repository {name}")
        if call.startswith("metadata/object/"):
            return _read(repository, call.rpartition("/")[2])
        return json.dumps(self._document(repository, call, query)).encode()

    def _document(self, repository: RealRepository, call: str, query: Mapping[str, str]) -> object:
        match unquote(call).split("/"):
            case [""]:
                return repository.answer("repository")["repository"]
            case ["branches"]:
                shown = query.get("show_hidden") == "True" or query.get("show_hidden") == "true"
                rows = [
                    each for each in repository.answer("branches") if shown or not each["hidden"]
                ]
                refs = [{"id": each["id"], "commit_id": each["commit_id"]} for each in rows]
                return page_of(refs, "id", query)
            case ["commits", ref]:
                id_, _ = _resolve(repository, ref, is_old=self.is_old)
                return next(each for each in repository.answer("commits") if each["id"] == id_)
            case ["refs", "dump"]:
                return repository.answer("refs_dump")
            case ["refs", *ref, "objects", "ls"]:
                return page_of(
                    _listing(repository, "/".join(ref), is_old=self.is_old), "path", query
                )
        return _nothing(call)


def _read(repository: RealRepository, id_: str) -> bytes:
    path = repository.folder / "_lakefs" / id_
    if not path.exists():
        raise NoSuchThingError(id_)
    return path.read_bytes()


def _nothing(what: str) -> NoReturn:
    raise NoSuchThingError(what)


def _resolve(repository: RealRepository, ref: str, *, is_old: bool) -> tuple[str, str | None]:
    """The commit that a text means, and the branch, if it is one; only that may have an `@`."""
    name = ref.removesuffix("@")
    heads = {each["id"]: each["commit_id"] for each in repository.answer("branches")}
    ids = [each["id"] for each in repository.answer("commits") if each["id"].startswith(name)]
    if len(ids) == 1 and (is_old or name not in heads or name in ids):
        return (ids[0], None) if name == ref else _nothing(ref)
    return (heads[name], name) if name in heads else _nothing(ref)


def _listing(repository: RealRepository, ref: str, *, is_old: bool) -> Sequence[Mapping[str, Any]]:
    commit, branch = _resolve(repository, ref, is_old=is_old)
    staged = repository.answer("staged").get(branch, {"entries": [], "removed": []})
    rows = {each["path"]: each for each in repository.entries[commit]}
    rows |= {each["path"]: each for each in staged["entries"]}
    for path in staged["removed"]:
        del rows[path]
    kept = ("path", "physical_address", "checksum", "mtime", "size_bytes")
    ordered = sorted(rows.values(), key=lambda each: each["path"].encode())
    return [{name: row[name] for name in kept} | {"path_type": "object"} for row in ordered]


def page_of(rows: Sequence[Mapping[str, Any]], key: str, query: Mapping[str, str]) -> object:
    """Rows as a server answers them, some at a time."""
    after = query.get("after", "").encode()
    ahead = [row for row in rows if row[key].encode() > after] if after else list(rows)
    most = max(_PAGE_ROWS, len(rows) // _PAGES)
    page = ahead[: min(int(query.get("amount", 100)), most)]
    more = len(ahead) > len(page)
    about = {
        "has_more": more,
        "next_offset": page[-1][key] if more else "",
        "results": len(page),
        "max_per_page": 1000,
    }
    return {"pagination": about, "results": page}


#: Answers a call: its method, path, query and body; with a status and a body.
Answer = Callable[[str, str, Mapping[str, str], bytes], tuple[int, bytes]]


@contextmanager
def recorded_server(repositories: RealRepositories) -> Iterator[RecordedServer]:
    """A server on a port of its own, for as long as it is needed."""
    recorded = RecordedServer(repositories)

    def answer(method: str, path: str, query: Mapping[str, str], _: bytes) -> tuple[int, bytes]:
        recorded.asked.append(f"{method} {path}")
        broken = next((s for part, s in recorded.broken.items() if part in path), None)
        if broken is not None:
            return broken, b'{"message":"broken on purpose"}'
        return 200, recorded.answer(path, query)

    with serving(answer) as recorded.endpoint:
        yield recorded


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """An endpoint at which calls are answered so, for whoever has the key and the secret."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # in one piece: the second of two would wait 40 ms

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                status, said = answer(self.command, parts.path, query, body)
            except NoSuchThingError as error:
                status, said = 404, json.dumps({"message": f"{error} not found"}).encode()
            if self.headers.get("Authorization") != _AUTHORIZATION:
                status, said = 401, b'{"message":"error authenticating request"}'
            self._send(status, said)

        def do_GET(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
