"""Which policies of a realm apply to a table: the nearest of each type, taken whole.

A policy on a table comes before one on its namespace, and so on outwards to the catalog. Keys of
two policies are never merged, and one that is switched off near by switches off one further away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import CatalogPolicy, EntityType, join
from lakesweep.catalog.grants import EntityRef
from lakesweep.errors import (
    EntityMissingError,
    IncompleteError,
    ReferenceMissingError,
    UsageError,
)
from lakesweep.iceberg.policy_documents import PolicyInForce, PolicyType, parse_policy_content

_TYPES = frozenset(each.value for each in PolicyType)
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NearestPolicy:
    """A policy that applies to something: where it is kept, and where it is attached."""

    policy: CatalogPolicy
    catalog: str
    path: Path
    place: str
    is_inherited: bool


def nearest_policies(catalogs: Catalogs, catalog: Catalog, path: Path) -> list[NearestPolicy]:
    """The nearest policy of each type, for a table, a namespace, or with an empty path the catalog.

    Types that are not Polaris' own are not inherited: all of them count where they are attached.
    """
    view = catalog.snapshot(fresh=True)
    found: dict[str, NearestPolicy] = {}
    for depth, (place, number) in enumerate(_targets(catalog, view, path)):
        for mapping in catalogs.mappings.on(number):
            is_free = mapping.type not in _TYPES
            if mapping.type in found or (is_free and depth):
                continue
            policy = _kept(catalogs, mapping.policy, place, is_inherited=depth > 0)
            if policy is not None:
                found[mapping.type] = policy
    return list(found.values())


def applicable_policies(catalogs: Catalogs, catalog: Catalog, path: Path) -> list[PolicyInForce]:
    """The upkeep policies in force, with what they say."""
    nearest = nearest_policies(catalogs, catalog, path)
    return [_in_force(each) for each in nearest if each.policy.type in _TYPES]


def _targets(catalog: Catalog, view: ContentSnapshot, path: Path) -> Iterator[tuple[str, int]]:
    """What policies may be attached to, from the inside out: its name, and its id."""
    for depth in range(len(path), 0, -1):
        inner = path[:depth]
        kind = None if depth == len(path) else EntityType.NAMESPACE
        yield join((catalog.name, *inner)), view.get(inner, kind).id
    yield join((catalog.name,)), catalog.id


def _kept(
    catalogs: Catalogs, ref: EntityRef, place: str, *, is_inherited: bool
) -> NearestPolicy | None:
    """An attached policy; None if it was dropped, since then it no longer applies to anything."""
    try:
        home = catalogs.open_id(ref.catalog)
        view = home.snapshot(fresh=True)
        policy = view.by_id(ref.id)
    except (EntityMissingError, ReferenceMissingError):
        return None
    assert isinstance(policy, CatalogPolicy)
    return NearestPolicy(policy, home.name, view.path(policy), place, is_inherited)


def _in_force(nearest: NearestPolicy) -> PolicyInForce:
    name = join((nearest.catalog, *nearest.path))
    type_ = PolicyType(nearest.policy.type)
    try:
        content = parse_policy_content(type_, nearest.policy.content)
    except UsageError as error:
        raise IncompleteError(f"policy {name}: {error.message}", hint=error.hint) from error
    return PolicyInForce(type_, name, f"policy {name} on {nearest.place}", content)
