"""Polaris' endpoints of policies: kept in namespaces, attached to what they apply to.

The first version of a policy is 0 in Polaris and 1 here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lakesweep.catalog.applicable_policies import nearest_policies
from lakesweep.catalog.commits import Create, Drop, Update
from lakesweep.catalog.entities import CatalogPolicy, EntityType, kind_of
from lakesweep.catalog.grants import EntityRef, Privilege, entity_ref
from lakesweep.catalog.warehouse.problems import (
    Path,
    ProblemType,
    WarehouseError,
    bad_request,
    dotted,
    name_taken,
    no_namespace,
)
from lakesweep.catalog.warehouse.warehouse import checked
from lakesweep.errors import (
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    UsageError,
)
from lakesweep.iceberg.policy_documents import PolicyType, check_policy
from lakesweep.server.iceberg.call import SEPARATOR, IcebergCall, IcebergReply, encoded
from lakesweep.server.iceberg.tables import IdentifierBody, IdentifierList

_KIND = EntityType.POLICY
_INHERITED = frozenset(each.value for each in PolicyType)


class NewPolicyBody(msgspec.Struct, frozen=True):
    """A policy to be created."""

    name: str
    type: str
    description: str = ""
    content: str = ""


class PolicyChangeBody(msgspec.Struct, frozen=True, rename="kebab"):
    """A change of a policy that has not changed since."""

    current_policy_version: int
    description: str | None = None
    content: str | None = None


class PolicyTarget(msgspec.Struct, frozen=True):
    """What a policy is attached to."""

    type: str
    path: tuple[str, ...] = ()


class AttachBody(msgspec.Struct, frozen=True):
    """A policy is attached, or no longer."""

    target: PolicyTarget
    parameters: dict[str, str] | None = None


def list_all(call: IcebergCall) -> IcebergReply:
    """The policies of a namespace, or those of one type."""
    token, size = call.page()
    wanted = call.query.get("policyType")
    page = call.warehouse.names(call.namespace, [_KIND], token, size)
    view = call.warehouse.look()
    found = [
        IdentifierBody(path[:-1], path[-1])
        for path in page.names
        if wanted is None or getattr(view.find(path, _KIND), "type", None) == wanted
    ]
    return encoded(IdentifierList(tuple(found), page.token))


def create(call: IcebergCall) -> IcebergReply:
    """Add a policy; its content fits the schema of its type."""
    given = call.decode(NewPolicyBody)
    path = checked((*call.namespace, given.name))
    _check(given.type, given.content)
    what = CatalogPolicy(type=given.type, content=given.content, description=given.description)
    shown = _shown(given.name, msgspec.structs.replace(what, version=1))
    call.warehouse.check_namespace(path[:-1])
    try:
        call.warehouse.apply([Create(path, what)], msgspec.json.encode({"policy": shown}))
    except EntityExistsError:
        raise name_taken(_KIND, _KIND, path) from None
    except EntityMissingError:
        raise no_namespace(path[:-1]) from None
    return encoded({"policy": shown})


def load(call: IcebergCall) -> IcebergReply:
    """One policy."""
    policy = _find(call, call.path)
    return encoded({"policy": _shown(policy.name, policy)})


def update(call: IcebergCall) -> IcebergReply:
    """Change what a policy says."""
    given, policy = call.decode(PolicyChangeBody), _find(call, call.path)
    content = policy.content if given.content is None else given.content
    description = policy.description if given.description is None else given.description
    _check(policy.type, content)
    if policy.version != given.current_policy_version + 1:
        raise _changed(call.path)
    after = msgspec.structs.replace(policy, content=content, description=description)
    try:
        result = call.warehouse.apply([Update(call.path, after, policy.version)]).results[0]
    except EntityChangedError:
        raise _changed(call.path) from None
    except EntityMissingError:
        raise _missing(call.path) from None
    now = result.entity if isinstance(result.entity, CatalogPolicy) else after
    return encoded({"policy": _shown(now.name, now)})


def drop(call: IcebergCall) -> IcebergReply:
    """Drop a policy that is attached to nothing, or detach it first."""
    policy = _find(call, call.path)
    mappings = list(call.catalogs.mappings.of(policy.id))
    if mappings and not call.flag("detach-all"):
        raise WarehouseError(
            ProblemType.POLICY_IN_USE,
            f"Policy {dotted(call.path)} is attached to {len(mappings)} targets",
        )
    if mappings:
        call.catalogs.mappings.remove(mappings, f"detach policy {policy.id}")
    try:
        call.warehouse.apply([Drop(call.path, policy.version, _KIND)])
    except EntityChangedError:
        raise _changed(call.path) from None
    except EntityMissingError:
        raise _missing(call.path) from None
    return IcebergReply()


def attach(call: IcebergCall) -> IcebergReply:
    """Attach a policy to a catalog, a namespace or a table."""
    given, policy, target = _mapping(call)
    ref = entity_ref(policy, call.warehouse.catalog.id)
    try:
        call.catalogs.mappings.attach(ref, policy.type, target, given.parameters)
    except EntityExistsError as error:
        raise WarehouseError(ProblemType.POLICY_CONFLICT, error.message) from None
    return IcebergReply()


def detach(call: IcebergCall) -> IcebergReply:
    """Detach it."""
    _, policy, target = _mapping(call)
    ref = entity_ref(policy, call.warehouse.catalog.id)
    if not call.catalogs.mappings.detach(ref, target):
        raise WarehouseError(
            ProblemType.NO_SUCH_MAPPING, f"Policy {dotted(call.path)} is not attached there"
        )
    return IcebergReply()


def applicable(call: IcebergCall) -> IcebergReply:
    """The policies that apply to a table, a namespace or the catalog, also inherited ones."""
    namespace = call.query.get("namespace", "")
    name = call.query.get("target-name")
    path: Path = tuple(namespace.split(SEPARATOR)) if namespace else ()
    path = (*path, name) if name else path
    call.check(Privilege.READ_METADATA, path)
    wanted = call.query.get("policyType")
    try:
        found = nearest_policies(call.catalogs, call.warehouse.catalog, path)
    except EntityMissingError:
        raise _no_target(path) from None
    shown = [
        {
            **_shown(each.policy.name, each.policy),
            "inherited": each.is_inherited,
            "namespace": each.path[:-1],
        }
        for each in found
        if wanted in (None, each.policy.type)
    ]
    return encoded({"applicable-policies": shown, "next-page-token": None})


def _mapping(call: IcebergCall) -> tuple[AttachBody, CatalogPolicy, EntityRef]:
    given = call.decode(AttachBody)
    place = given.target.path
    call.check(Privilege.ATTACH_POLICY, place)
    return given, _find(call, call.path), _target(call, given.target)


def _target(call: IcebergCall, target: PolicyTarget) -> EntityRef:
    catalog = call.warehouse.catalog
    if target.type == "catalog" and not target.path:
        return entity_ref(catalog.definition)
    if target.type not in ("namespace", "table-like") or not target.path:
        raise bad_request("a target is a catalog, or a namespace or table-like with its path")
    found = call.warehouse.look().find(checked(target.path))
    is_namespace = found is not None and kind_of(found) is EntityType.NAMESPACE
    if found is None or is_namespace is not (target.type == "namespace"):
        raise _no_target(target.path)
    return entity_ref(found, catalog.id)


def _check(type_: str, content: str) -> None:
    try:
        check_policy(type_, content)
    except UsageError as error:
        raise bad_request(error.message) from None


def _find(call: IcebergCall, path: Path) -> CatalogPolicy:
    found = call.warehouse.look().find(checked(path), _KIND)
    if not isinstance(found, CatalogPolicy):
        raise _missing(path)
    return found


def _missing(path: Path) -> WarehouseError:
    return WarehouseError(ProblemType.NO_SUCH_POLICY, f"Policy does not exist: {dotted(path)}")


def _no_target(path: Path) -> WarehouseError:
    return WarehouseError(ProblemType.NO_SUCH_TARGET, f"Target does not exist: {dotted(path)}")


def _changed(path: Path) -> WarehouseError:
    return WarehouseError(
        ProblemType.POLICY_VERSION, f"Policy {dotted(path)} has changed; load it again"
    )


def _shown(name: str, policy: CatalogPolicy) -> dict[str, Any]:
    return {
        "policy-type": policy.type,
        "inheritable": policy.type in _INHERITED,
        "name": name,
        "description": policy.description,
        "content": policy.content,
        "version": policy.version - 1,
    }
