"""What handlers of pages return: a view to be rendered, or where to go next."""

from __future__ import annotations

import shlex
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from lakesweep.server.api.call import Reply


class PageView(msgspec.Struct, frozen=True, kw_only=True):
    """A template and what it shows.

    `api` is the path of the same in the API, `command` the command that prints it. `is_live` says
    that it changes by itself; a part of a page that has come to its end says `is_over`.
    """

    template: str
    title: str
    values: dict[str, Any] = {}
    api: str | None = None
    command: str | None = None
    is_live: bool = False
    is_over: bool = False
    status: int = HTTPStatus.OK.value


def link(*parts: str) -> str:
    """A path of the console or the API, with names as they must be sent."""
    return "/" + "/".join(map(encoded, parts))


def encoded(name: str) -> str:
    """A name as one part of a path, or as a value of a query."""
    return quote(name, safe="", errors="surrogatepass")


def command_line(*words: str) -> str:
    """A command to copy into a shell."""
    return shlex.join(["lakesweep", *words])


def go_to(path: str) -> Reply:
    """An answer to a form: show another page."""
    return Reply(status=HTTPStatus.SEE_OTHER, headers={"location": path})
