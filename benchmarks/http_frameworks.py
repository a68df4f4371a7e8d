"""Requests a second of a web framework on one worker: hello JSON, and 9 kB of structs.

`python benchmarks/http_frameworks.py starlette`, or fastapi or litestar if they are installed.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
import sys
import time
from typing import Any

import msgspec
import uvicorn

_CONNECTIONS = 16
_SECONDS = 4.0
_ROUNDS = 3


class Line(msgspec.Struct, frozen=True):
    """One entry of a list."""

    run: str
    lake: str
    kind: str
    status: str
    files: int
    bytes: int


PAGE = [
    Line(f"plan-20260101T0000{n:02}-5c2f81aa", "prod", "plan", "done", n, n * 1000)
    for n in range(85)
]


def _starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def hello(_: Request) -> Response:
        return Response(msgspec.json.encode({"hello": "world"}), media_type="application/json")

    async def page(_: Request) -> Response:
        return Response(msgspec.json.encode(PAGE), media_type="application/json")

    return Starlette(routes=[Route("/hello", hello), Route("/page", page)])


def _fastapi() -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {
        field.name: (field.type, ...) for field in msgspec.structs.fields(Line)
    }
    model: Any = create_model("Line", **fields)
    pages = [model(**msgspec.structs.asdict(line)) for line in PAGE]
    app = importlib.import_module("fastapi").FastAPI()

    async def hello() -> dict[str, str]:
        return {"hello": "world"}

    async def page() -> Any:
        return pages

    app.get("/hello")(hello)
    app.get("/page", response_model=list[model])(page)
    return app


def _litestar() -> Any:
    litestar = importlib.import_module("litestar")

    async def hello() -> dict[str, str]:
        return {"hello": "world"}

    async def page() -> list[Line]:
        return PAGE

    hello.__annotations__ = {"return": dict[str, str]}
    page.__annotations__ = {"return": list[Line]}
    return litestar.Litestar([litestar.get("/hello")(hello), litestar.get("/page")(page)])


FRAMEWORKS = {"starlette": _starlette, "fastapi": _fastapi, "litestar": _litestar}


async def _load(port: int, path: str) -> float:
    """Requests a second over some connections that stay open."""
    done, end = 0, time.perf_counter() + _SECONDS
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    async def connection() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()

    await asyncio.gather(*(connection() for _ in range(_CONNECTIONS)))
    return done / _SECONDS


def main(name: str) -> None:
    """Measure one framework."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    child = os.fork()
    if child == 0:
        config = uvicorn.Config(
            FRAMEWORKS[name](), http="httptools", log_level="error", access_log=False
        )
        uvicorn.Server(config).run([listener])
        os._exit(0)
    time.sleep(2)
    for path in ("/hello", "/page"):
        best = max(asyncio.run(_load(listener.getsockname()[1], path)) for _ in range(_ROUNDS))
        print(f"{name} {path}: {best:,.0f} requests/s")
    os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
