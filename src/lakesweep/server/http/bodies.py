"""Read what a request carries, within limits: its body, its form, its query."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from lakesweep.decoding import convert, typed_json
from lakesweep.server.http.problems import HttpError

#: No request of ours is larger; lists of files to restore are the longest.
MOST_BYTES = 1_000_000
_BODY_SECONDS = 30.0
_MOST_FIELDS = 1_000
_NOT_JSON = "the body is one JSON object in UTF-8, such as {}; /api/docs shows its fields"
_NOT_FIELDS = "write name=value&name=value, with other characters as %XX"

Given = TypeVar("Given", bound=msgspec.Struct)


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """The body. HttpError if it is too large, or does not arrive in time."""
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _read(request, most)
    except TimeoutError:
        raise HttpError(
            HTTPStatus.REQUEST_TIMEOUT,
            "the body did not arrive in time",
            hint=f"send all of it within {_BODY_SECONDS:.0f} seconds",
        ) from None
    except ClientDisconnect:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the client is gone") from None


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def parse_json(body: bytes, kind: type[Given]) -> Given:
    """A body as a struct; an empty one has all defaults."""
    try:
        return typed_json(body or b"{}", kind)
    except msgspec.ValidationError as error:
        raise _wrong(f"the body is wrong: {error}", _hint(kind, "fields")) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _wrong(f"the body is wrong: {error}", _NOT_JSON) from None


def parse_query(text: bytes, kind: type[Given]) -> Given:
    """The query of a request as a struct. Unknown and repeated parameters are refused."""
    return _convert(_fields(text, "the query"), kind, "the query")


def parse_form(body: bytes, kind: type[Given]) -> Given:
    """A form as a struct; in contrast to queries, fields that nobody knows are ignored."""
    known = _names(kind)
    pairs = [(name, value) for name, value in _fields(body, "the form") if name in known]
    return _convert(pairs, kind, "the form")


def _fields(text: bytes, what: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise _wrong(f"{what} is wrong: {error}", _NOT_FIELDS) from None


def _convert(pairs: list[tuple[str, str]], kind: type[Given], what: str) -> Given:
    lists = _list_names(kind)
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise _wrong(f"{what} is wrong: {name} is given twice", f"give {name} once")
        else:
            found[name] = value
    try:
        return convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong(f"{what} is wrong: {error}", _hint(kind)) from None


# A struct's fields cost more than the rest of a small request, and never change.
@cache
def _names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


@cache
def _list_names(kind: type[msgspec.Struct]) -> frozenset[str]:
    fields = msgspec.structs.fields(kind)
    return frozenset(field.encode_name for field in fields if get_origin(field.type) is tuple)


def _hint(kind: type[msgspec.Struct], noun: str = "parameters") -> str:
    names = _names(kind)
    return f"the {noun} are {', '.join(names)}" if names else f"it takes no {noun}"


def check_media_type(headers: Mapping[str, str], wanted: str, *, required: bool) -> None:
    """HttpError unless the body is declared as what is wanted."""
    told = headers.get("content-type", "").partition(";")[0].strip().lower()
    if told == wanted or (not told and not required):
        return
    raise HttpError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"the body must be {wanted}",
        hint=f"send the header Content-Type: {wanted}",
    )


def _too_large(most: int) -> HttpError:
    return HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body has more than {most:,} bytes",
        hint="send less at once: several requests, each with a part of the list",
    )


def _wrong(detail: str, hint: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, detail, hint=hint)
