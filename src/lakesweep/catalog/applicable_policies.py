"""Which policies of a realm apply to a table: the nearest of each type, taken whole.

A policy on a table comes before one on its namespace, and so on outwards to the catalog. Keys of
two policies are never merged, and one that is switched off near by switches off one further away.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.entities import CatalogPolicy, EntityType, join
from lakesweep.catalog.grants import EntityRef
from lakesweep.catalog.snapshot import ContentSnapshot
from lakesweep.errors import (
    EntityMissingError,
    IncompleteError,
    ReferenceMissingError,
    UsageError,
)
from lakesweep.iceberg.policy_documents import PolicyInForce, PolicyType, parse_policy_content

_TYPES = frozenset(each.value for each in PolicyType)
Path = tuple[str, ...]


def applicable_policies(catalogs: Catalogs, catalog: Catalog, path: Path) -> list[PolicyInForce]:
    """The policies in force for a table or a namespace, or for the catalog with an empty path."""
    view = catalog.snapshot(fresh=True)
    found: dict[str, PolicyInForce] = {}
    for place, number in _targets(catalog, view, path):
        for mapping in catalogs.mappings.on(number):
            if mapping.type in _TYPES and mapping.type not in found:
                policy = _in_force(catalogs, mapping.policy, place)
                if policy is not None:
                    found[mapping.type] = policy
    return list(found.values())


def _targets(catalog: Catalog, view: ContentSnapshot, path: Path) -> Iterator[tuple[str, int]]:
    """What policies may be attached to, from the inside out: its name, and its id."""
    for depth in range(len(path), 0, -1):
        inner = path[:depth]
        kind = None if depth == len(path) else EntityType.NAMESPACE
        yield join((catalog.name, *inner)), view.get(inner, kind).id
    yield join((catalog.name,)), catalog.id


def _in_force(catalogs: Catalogs, ref: EntityRef, place: str) -> PolicyInForce | None:
    """An attached policy; None if it was dropped, since then it no longer applies to anything."""
    try:
        home = catalogs.open_id(ref.catalog)
        view = home.snapshot(fresh=True)
        policy = view.by_id(ref.id)
    except (EntityMissingError, ReferenceMissingError):
        return None
    assert isinstance(policy, CatalogPolicy)
    name = join((home.name, *view.path(policy)))
    type_ = PolicyType(policy.type)
    try:
        content = parse_policy_content(type_, policy.content)
    except UsageError as error:
        raise IncompleteError(f"policy {name}: {error.message}", hint=error.hint) from error
    return PolicyInForce(type_, name, f"policy {name} on {place}", content)
