"""The adapter for REST catalogs, whose answers name the metadata file directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import IncompleteError
from lakesweep.iceberg.generic_catalog import (
    CatalogEntry,
    GenericCatalogAdapter,
    Name,
    table_missing,
    without_metadata,
)
from lakesweep.iceberg.metadata import write_paths_of
from lakesweep.paging import PageTrail
from lakesweep.storage.wrappers.run_load import Pace, no_pace
from lakesweep.untrusted.documents import JSON_ERRORS, JsonObject

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from requests import Response

_NOT_FOUND = 404
#: Retryable answers. Only reads are retried, never changes.
_PASSING = (429, 500, 502, 503, 504)
_ATTEMPTS = 5
_REQUESTS_AT_ONCE = 8


#: Seconds to connect, and seconds without a byte, until a server counts as dead.
_TIMEOUT = (10.0, 60.0)


def bound_requests(catalog: RestCatalog, pace: Pace = no_pace) -> RestCatalog:
    """Retry while a server is busy, and follow neither silence nor pages for ever.

    One lost answer would veto a whole table. A run that waits holds its lease.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    class BoundedAdapter(HTTPAdapter):
        """PyIceberg sets no time limit."""

        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            pace()
            options["timeout"] = options.get("timeout") or _TIMEOUT
            return super().send(request, *args, **options)

    again = Retry(
        total=_ATTEMPTS,
        connect=1,
        status_forcelist=_PASSING,
        allowed_methods={"GET", "HEAD"},
        backoff_factor=0.2,
        raise_on_status=False,
    )
    adapter = BoundedAdapter(pool_maxsize=_REQUESTS_AT_ONCE, max_retries=again)
    session = catalog._session  # noqa: SLF001
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    session.hooks["response"].append(PageWatch(catalog.name).check)
    return catalog


class PageWatch:
    """Looks at each page of a listing before PyIceberg asks for the next one."""

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog
        self._trails: dict[str, PageTrail] = {}
        self._names: dict[str, set[str]] = {}

    def check(self, response: Response, **_: object) -> None:
        """IncompleteError if the listing that a page belongs to does not end."""
        place, token = _split_page_url(str(response.url))
        if token is None:
            self._trails[place], self._names[place] = PageTrail(), set()
        page = _page_of(response)
        if page.next_page_token is None:
            self._trails.pop(place, None)
            self._names.pop(place, None)
            return
        known = self._names.setdefault(place, set())
        before = len(known)
        known.update(map(str, (*page.identifiers, *page.namespaces)))
        trail = self._trails.get(place, PageTrail())
        trail = trail.follow(page.next_page_token, found=len(known) > before)
        self._trails[place] = trail
        if trail.problem:
            raise IncompleteError(
                f"catalog {self._catalog}: {trail.problem}", hint="check the server of the catalog"
            )


class _Page(msgspec.Struct, frozen=True, rename="kebab"):
    """What matters of a page; other answers have none of it."""

    next_page_token: str | None = None
    identifiers: tuple[Any, ...] = ()
    namespaces: tuple[Any, ...] = ()


def _page_of(response: Response) -> _Page:
    try:
        page = typed_json(response.content, _Page)
    except JSON_ERRORS:
        return _Page()  # not a page; the caller reports what is wrong with it
    return page if page.next_page_token else _Page()


def _split_page_url(url: str) -> tuple[str, str | None]:
    """The address of a listing without its page token, and the token."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    rest = [(name, value) for name, value in query if name != "pageToken"]
    token = next((value for name, value in query if name == "pageToken"), None)
    return f"{parts.path}?{urlencode(rest)}", token


@dataclass(frozen=True)
class RestCatalogAdapter(GenericCatalogAdapter):
    """Tables and views, each with the credentials that the server vends for its files."""

    catalog: RestCatalog

    def find(self, name: Name) -> CatalogEntry:
        for is_view in (False, True):
            answer = self.ask(name, partial(self._load, name, is_view))
            if answer is not None:
                return self._entry(name, is_view, answer)
        raise table_missing(self.name, name)

    @property
    def requests_at_once(self) -> int:
        return _REQUESTS_AT_ONCE

    def names(self, namespace: Name) -> list[Name]:
        views = self.ask(namespace, lambda: self.catalog.list_views(namespace))
        return [*super().names(namespace), *(tuple(view) for view in views)]

    def _load(self, name: Name, is_view: bool) -> JsonObject | None:
        from pyiceberg.catalog.rest import Endpoints, IdentifierKind

        endpoint = Endpoints.load_view if is_view else Endpoints.load_table
        kind = IdentifierKind.VIEW if is_view else IdentifierKind.TABLE
        # The public calls decode the whole metadata, which fails for tables that are fine.
        place = self.catalog._split_identifier_for_path(name, kind)  # noqa: SLF001
        url = self.catalog.url(endpoint, prefixed=True, **place)
        answer = self.catalog._session.get(url)  # noqa: SLF001
        if answer.status_code == _NOT_FOUND:
            return None
        answer.raise_for_status()
        return dict(answer.json())

    def _entry(self, name: Name, is_view: bool, answer: JsonObject) -> CatalogEntry:
        path = answer.get("metadata-location")
        if not path:
            raise without_metadata(self.name, name)
        access = {**self.catalog.properties, **answer.get("config", {})}
        for credential in answer.get("storage-credentials") or ():
            if str(path).startswith(credential.get("prefix", "")):
                access.update(credential.get("config", {}))
        return CatalogEntry(self.name, name, is_view, str(path), access, _folders(answer))


def _folders(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the server says that files are, apart from the metadata."""
    metadata = answer.get("metadata") or {}
    location = metadata.get("location")
    return (str(location), *write_paths_of(metadata.get("properties") or {})) if location else ()
