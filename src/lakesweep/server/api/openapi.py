"""The OpenAPI 3.1 document, made from the table of routes, and a page to read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

import msgspec

from lakesweep.server.api.call import JSON, Route
from lakesweep.server.http.problems import MEDIA_TYPE, ProblemDocument
from lakesweep.version import __version__

_REFERENCE = "#/components/schemas/{name}"
_NAME = re.compile(r"\{(\w+)\}")
#: What any call may answer, apart from success.
_REFUSALS = (400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 423, 429, 500, 502, 503)

Json = dict[str, Any]
_TEXT: Json = {"type": "string"}


def openapi_document(routes: Sequence[Route[Any]]) -> Json:
    """The document for all routes."""
    answers = [answer for route in routes for answer in route.answers]
    requests = [route.request for route in routes]
    kinds = [*answers, *requests, ProblemDocument]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(
            route, by_kind, components
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lakesweep",
            "version": __version__,
            "description": "Finds what nothing references in a lakehouse, and deletes it safely.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route[Any], schemas: dict[int, Json], components: Json) -> Json:
    operation: Json = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}.{route.handler.__name__}",
        "summary": route.summary,
        "description": _role_text(route),
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas, components)],
        "responses": _responses(route, schemas),
    }
    if route.has_body:
        required = bool(_struct(schemas[id(route.request)], components).get("required"))
        operation["requestBody"] = {
            "required": required,
            "content": {route.takes: {"schema": schemas[id(route.request)]}},
        }
    if route.role is not None:
        operation["security"] = [{"token": []}]
    return operation


def _role_text(route: Route[Any]) -> str:
    return "Needs no role." if route.role is None else f"Needs the role {route.role}."


def _path_parameters(route: Route[Any]) -> Iterator[Json]:
    for name in _NAME.findall(route.path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(
    route: Route[Any], schemas: dict[int, Json], components: Json
) -> Iterator[Json]:
    if route.has_body:
        return
    struct = _struct(schemas[id(route.request)], components)
    for name, schema in struct.get("properties", {}).items():
        is_required = name in struct.get("required", ())
        yield {
            "name": name,
            "in": "query",
            "required": is_required,
            # A query has no null: a parameter is given or left out.
            "schema": _without_null(schema),
        }


def _without_null(schema: Json) -> Json:
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not options:
        return schema
    return _any_of(options)


def _struct(schema: Json, components: Json) -> Json:
    found: Json = components[schema["$ref"].rpartition("/")[2]]
    return found


def _any_of(schemas: list[Json]) -> Json:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _responses(route: Route[Any], schemas: dict[int, Json]) -> Json:
    success: Json = {"description": route.status.phrase}
    if route.status is not HTTPStatus.NO_CONTENT:
        is_json = route.media_types == (JSON,) and route.answers
        schema = _any_of([schemas[id(each)] for each in route.answers]) if is_json else _TEXT
        success["content"] = {media: {"schema": schema} for media in route.media_types}
    problem = {"content": {MEDIA_TYPE: {"schema": schemas[id(ProblemDocument)]}}}
    refusals = {
        str(code): {"description": HTTPStatus(code).phrase, **problem} for code in _REFUSALS
    }
    return {str(route.status.value): success, **refusals}


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid #8884; vertical-align: top } code { font-size: .9em } summary { cursor:
pointer } pre { overflow-x: auto; background: #8882; padding: .6rem }
"""


def openapi_page(document: Json) -> bytes:
    """The document as one page without scripts."""
    rows = "".join(
        _row(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>"
        f"<pre>{escape(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode())}</pre>"
        "</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        f"<title>Lakesweep API</title><style>{_STYLE}</style><h1>Lakesweep API</h1>"
        f"<p>Version {escape(__version__)}. For programs: "
        "<a href='/api/openapi.json'>openapi.json</a>. Send "
        "<code>Authorization: Bearer TOKEN</code>; errors are problem documents (RFC 9457).</p>"
        f"<table><tr><th>call<th>what it does<th>parameters</tr>{rows}</table>"
        f"<h2>Shapes</h2>{schemas}"
    ).encode()


def _row(method: str, path: str, operation: Json) -> str:
    names = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {})
    shapes = [each["schema"]["$ref"].rpartition("/")[2] for each in body.values()]
    given = [*map(escape, names), *(f"<a href='#{n}'>{n}</a>" for n in map(escape, shapes))]
    return (
        f"<tr><td><code>{method.upper()} {escape(path)}</code>"
        f"<td>{escape(operation['summary'])}. {escape(operation['description'])}"
        f"<td>{', '.join(given)}</tr>"
    )
