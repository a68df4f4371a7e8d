from __future__ import annotations

from typing import Any

import pytest

from lakesweep.server.api.call import Call, Nothing, Route
from lakesweep.server.api.router import ApiRouter
from lakesweep.server.http.problems import HttpError


def _handler(call: Call[Nothing]) -> None:
    del call


def _route(method: str, path: str) -> Route[Any]:
    return Route(method, path, _handler, None, Nothing, (), "")


ROUTER = ApiRouter(
    [
        _route("GET", "/plans/{plan}"),
        _route("DELETE", "/plans/{plan}"),
        _route("POST", "/plans/{plan}:apply"),
        _route("GET", "/plans/{plan}/files"),
        _route("GET", "/plans/newest"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "route", "plan"),
    [
        ("GET", "/plans/p1", "/plans/{plan}", "p1"),
        ("HEAD", "/plans/p1", "/plans/{plan}", "p1"),
        ("GET", "/plans/a%2Fb", "/plans/{plan}", "a/b"),
        ("GET", "/plans/a%252Fb", "/plans/{plan}", "a%2Fb"),
        ("GET", "/plans/a+b", "/plans/{plan}", "a+b"),
        ("POST", "/plans/p1:apply", "/plans/{plan}:apply", "p1"),
        ("POST", "/plans/p1:apply:apply", "/plans/{plan}:apply", "p1:apply"),
        ("GET", "/plans/p1%3Aapply", "/plans/{plan}", "p1:apply"),
        ("GET", "/plans/a%2Fb/files", "/plans/{plan}/files", "a/b"),
        ("GET", "/plans/%F0%9F%8C%8A", "/plans/{plan}", "\U0001f30a"),
    ],
)
def test_a_path_is_split_before_it_is_decoded(
    method: str, path: str, route: str, plan: str
) -> None:
    found, names = ROUTER.find(method, path.encode())
    assert (found.path, names) == (route, {"plan": plan})


def test_a_literal_comes_before_a_name() -> None:
    assert ROUTER.find("GET", b"/plans/newest")[0].path == "/plans/newest"


@pytest.mark.parametrize("path", [b"/", b"/plans", b"/plans/", b"/plans/p1/", b"/plans//files"])
def test_what_is_no_path_of_a_route_is_not_found(path: bytes) -> None:
    with pytest.raises(HttpError) as refused:
        ROUTER.find("GET", path)
    assert refused.value.status == 404


def test_other_methods_are_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(HttpError) as refused:
        ROUTER.find("PUT", b"/plans/p1")
    assert refused.value.status == 405
    assert refused.value.headers == {"allow": "DELETE, GET"}
    with pytest.raises(HttpError) as refused:
        ROUTER.find("GET", b"/plans/p1:apply")
    assert refused.value.headers == {"allow": "POST"}
