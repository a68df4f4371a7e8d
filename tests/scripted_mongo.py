"""A server that speaks MongoDB's protocol and answers as it is told, good or bad."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import bson

Document = dict[str, Any]

#: In place of an answer: the connection ends without one.
HANGS_UP: Document = {"hangs": "up"}

_QUERY, _MESSAGE, _REPLY = 2004, 2013, 1
_HEADER = struct.Struct("<iiii")
_GREETINGS = {"ismaster", "isMaster", "hello"}
_SILENT = {"endSessions"}


@dataclass(slots=True)
class ScriptedMongo:
    """The primary of a replica set of one.

    `answers` are those to come for each command, in order; the last one is given for ever.
    `commands` are those that came, without what keeps the connection going.
    """

    address: str
    answers: defaultdict[str, list[Document]] = field(default_factory=lambda: defaultdict(list))
    commands: list[Document] = field(default_factory=list)
    wire_version: int = 13

    @property
    def url(self) -> str:
        return f"mongodb://{self.address}/lake"

    @property
    def asked(self) -> list[str]:
        """The names of the commands that came."""
        return [next(iter(command)) for command in self.commands]

    def play(self, command: str, *answers: Document) -> None:
        """Answer this command so."""
        self.answers[command] = list(answers)

    def answer(self, command: Document) -> Document:
        name = next(iter(command))
        if name in _GREETINGS:
            return self._greeting()
        if name in _SILENT:
            return {"ok": 1}
        self.commands.append(command)
        answers = self.answers[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _greeting(self) -> Document:
        return {
            "ok": 1,
            "helloOk": True,
            "isWritablePrimary": True,
            "ismaster": True,
            "setName": "set",
            "hosts": [self.address],
            "primary": self.address,
            "me": self.address,
            "minWireVersion": 0,
            "maxWireVersion": self.wire_version,
            "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30,
        }


def found(*documents: Mapping[str, Any]) -> Document:
    """The answer to a find."""
    return {"ok": 1, "cursor": {"id": bson.Int64(0), "ns": "lake.x", "firstBatch": [*documents]}}


def refused(code: int, message: str = "no") -> Document:
    """The answer to a command that the server will not run."""
    return {"ok": 0, "code": code, "errmsg": message}


@contextmanager
def scripted_mongo() -> Iterator[ScriptedMongo]:
    """Run the server until the block ends."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        host, port = server.server_address[:2]
        server.script = ScriptedMongo(f"{host!s}:{port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.script
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    script: ScriptedMongo


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        while header := self.rfile.read(_HEADER.size):
            length, number, _, kind = _HEADER.unpack(header)
            command = _command(kind, self.rfile.read(length - _HEADER.size))
            answer = self.server.script.answer(command)
            if answer is HANGS_UP:
                return
            self.wfile.write(_packed(kind, number, bson.encode(answer)))


def _command(kind: int, body: bytes) -> Document:
    """A command with the documents that came beside it."""
    if kind == _QUERY:
        return bson.decode(body[body.index(b"\0", 4) + 9 :])
    assert kind == _MESSAGE
    command: Document = {}
    more: Document = {}
    at = 4
    while at < len(body):
        (size,) = struct.unpack_from("<i", body, at + 1)
        section = body[at + 1 : at + 1 + size]
        if body[at] == 0:
            command = bson.decode(section)
        else:
            name, _, documents = section[4:].partition(b"\0")
            more[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return command | more


def _packed(kind: int, number: int, document: bytes) -> bytes:
    if kind == _QUERY:
        body, answer = struct.pack("<iqii", 8, 0, 0, 1) + document, _REPLY
    else:
        body, answer = struct.pack("<iB", 0, 0) + document, _MESSAGE
    return _HEADER.pack(_HEADER.size + len(body), 0, number, answer) + body
