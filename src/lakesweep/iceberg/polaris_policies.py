"""The upkeep policies that a Polaris server says apply to a table.

The server resolves inheritance itself: it answers with the nearest policy of each type. Only if it
does not advertise the endpoint, a table has no policies; any other failure leaves them unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.iceberg.generic_catalog import Name, full_name
from lakesweep.iceberg.policy_documents import PolicyInForce, PolicyType, parse_policy_content
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.iceberg.rest_catalog import RestCatalogAdapter

_ENDPOINT = "applicable-policies"
_OK = 200
_SEPARATOR = "\x1f"
_MOST_PAGES = 100
_TYPES = frozenset(each.value for each in PolicyType)


class _Policy(msgspec.Struct, rename="kebab"):
    policy_type: str
    name: str
    namespace: list[str] = []
    inherited: bool = False
    content: str = ""


class _Page(msgspec.Struct, rename="kebab"):
    applicable_policies: list[_Policy]
    next_page_token: str | None = None


def polaris_policies(adapter: RestCatalogAdapter, table: Name) -> list[PolicyInForce]:
    """The policies of a table; empty if the server has none, or knows no policies."""
    if not _is_advertised(adapter.catalog):
        return []
    return [
        _in_force(adapter.name, table, each)
        for each in _policies(adapter, table)
        if each.policy_type in _TYPES
    ]


def _is_advertised(catalog: Any) -> bool:
    offered = (str(each) for each in getattr(catalog, "_supported_endpoints", ()))
    return any(each.endswith(f"/{_ENDPOINT}") for each in offered)


def _policies(adapter: RestCatalogAdapter, table: Name) -> Iterator[_Policy]:
    token: str | None = None
    for _ in range(_MOST_PAGES):
        page = adapter.ask(table, lambda token=token: _ask(adapter, table, token))  # type: ignore[misc]
        yield from page.applicable_policies
        token = page.next_page_token
        if not token:
            return
    raise IncompleteError(f"catalog {adapter.name} lists policies without end")


def _ask(adapter: RestCatalogAdapter, table: Name, token: str | None) -> _Page:
    catalog: Any = adapter.catalog
    base = str(catalog.uri).rstrip("/")
    prefix = catalog.properties.get("prefix", "").strip("/")
    url = "/".join(part for part in (base, "polaris/v1", prefix, _ENDPOINT) if part)
    params = {"namespace": _SEPARATOR.join(table[:-1]), "target-name": table[-1]}
    if token is not None:
        params["page-token"] = token
    answer = catalog._session.get(url, params=params)  # noqa: SLF001
    name = full_name(adapter.name, table)
    if answer.status_code != _OK:
        raise IncompleteError(
            f"{name}: the server did not tell its policies: {answer.status_code}"
            f" {answer.text[:200]}",
            hint="grant the right to read the policies of the table",
        )
    try:
        return typed_json(answer.content, _Page)
    except JSON_ERRORS as error:
        raise IncompleteError(f"{name}: the policies cannot be read: {error}") from error


def _in_force(catalog: str, table: Name, policy: _Policy) -> PolicyInForce:
    type_ = PolicyType(policy.policy_type)
    place = ".".join((catalog, *policy.namespace, policy.name))
    how = " (inherited)" if policy.inherited else ""
    try:
        content = parse_policy_content(type_, policy.content)
    except UsageError as error:
        raise IncompleteError(
            f"{full_name(catalog, table)}: policy {place}: {error.message}"
        ) from error
    return PolicyInForce(type_, policy.name, f"Polaris policy {place}{how}", content)
