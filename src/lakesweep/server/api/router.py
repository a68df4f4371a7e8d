"""Find the route of a request by its path as it was sent.

Names may hold `/`, `%`, `+` and `:`, so a path is split before it is decoded: `%2F` belongs to a
name, `/` does not. A last part such as `{plan}:apply` ends in a verb; a name that ends like one is
sent with `%3A`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from lakesweep.server.api.call import Route
from lakesweep.server.http.problems import HttpError

_NAME = re.compile(r"\{(\w+)\}(:[a-z]+)?")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The path of a route in parts: a literal, or a name with the verb behind it."""

    route: Route[Any]
    parts: tuple[tuple[str | None, str], ...]

    @classmethod
    def of(cls, route: Route[Any]) -> _Pattern:
        found = [(_NAME.fullmatch(part), part) for part in route.path.split("/")]
        return cls(route, tuple((m[1], m[2] or "") if m else (None, part) for m, part in found))

    def match(self, parts: Sequence[bytes]) -> Mapping[str, bytes] | None:
        if len(parts) != len(self.parts):
            return None
        names: dict[str, bytes] = {}
        for (name, text), part in zip(self.parts, parts, strict=True):
            if name is None:
                if part != text.encode():
                    return None
            elif not part.endswith(text.encode()) or len(part) == len(text):
                return None
            else:
                names[name] = part[: len(part) - len(text)]
        return names

    @property
    def rank(self) -> tuple[int, int]:
        """Literals come before names, and verbs before names without one."""
        named = [text for name, text in self.parts if name is not None]
        return len(named), -sum(map(bool, named))


class ApiRouter:
    """All routes, the most exact ones first."""

    def __init__(self, routes: Sequence[Route[Any]]) -> None:
        self.routes = tuple(routes)
        self._patterns = sorted(map(_Pattern.of, routes), key=lambda each: each.rank)

    def find(self, method: str, raw_path: bytes) -> tuple[Route[Any], Mapping[str, str]]:
        """The route of a request and the names in its path. HttpError (404, 405) if none is."""
        parts = raw_path.split(b"/")
        allowed: set[str] = set()
        rank = None
        for pattern in self._patterns:
            if rank is not None and pattern.rank != rank:
                break
            names = pattern.match(parts)
            if names is None:
                continue
            if method == pattern.route.method or (method, pattern.route.method) == ("HEAD", "GET"):
                return pattern.route, {name: _decoded(text) for name, text in names.items()}
            allowed.add(pattern.route.method)
            rank = pattern.rank
        if allowed:
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{method} is not allowed here",
                hint=f"allowed are {', '.join(sorted(allowed))}",
                headers={"allow": ", ".join(sorted(allowed))},
            )
        raise HttpError(HTTPStatus.NOT_FOUND, "there is nothing at this path", hint="see /api/docs")


def _decoded(text: bytes) -> str:
    """A name as it was before it was encoded; `+` is a plus."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            "a name in the path is not UTF-8",
            hint="encode names as UTF-8, and those bytes as %XX",
        ) from None
