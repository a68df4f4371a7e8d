"""The adapter for REST catalogs, whose answers name the metadata file directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakesweep.iceberg.catalog_entries import CatalogEntry, Name, table_missing, without_metadata
from lakesweep.iceberg.generic_catalog import GenericCatalogAdapter
from lakesweep.iceberg.metadata import write_paths_of

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

_NOT_FOUND = 404
#: Retryable answers. Only reads are retried, never changes.
_PASSING = (429, 500, 502, 503, 504)
_ATTEMPTS = 5
_REQUESTS_AT_ONCE = 8


def retry_requests(catalog: RestCatalog) -> RestCatalog:
    """Retry while a server is busy: one lost answer would veto a whole table."""
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    again = Retry(
        total=_ATTEMPTS,
        connect=1,
        status_forcelist=_PASSING,
        allowed_methods={"GET", "HEAD"},
        backoff_factor=0.2,
        raise_on_status=False,
    )
    adapter = HTTPAdapter(pool_maxsize=_REQUESTS_AT_ONCE, max_retries=again)
    for scheme in ("http://", "https://"):
        catalog._session.mount(scheme, adapter)  # noqa: SLF001
    return catalog


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

    def _load(self, name: Name, is_view: bool) -> dict[str, Any] | None:
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

    def _entry(self, name: Name, is_view: bool, answer: dict[str, Any]) -> CatalogEntry:
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
