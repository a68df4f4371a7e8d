"""Use cases of what a catalog contains: namespaces, tables, views, policies and their mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lakesweep.app import App
from lakesweep.catalog import (
    Catalog,
    CatalogPolicy,
    Catalogs,
    Create,
    Drop,
    Entity,
    EntityType,
    Rename,
    Table,
    TableMemo,
    Undrop,
    Update,
    View,
)
from lakesweep.catalog.applicable_policies import applicable_policies
from lakesweep.catalog.commits import Mutation
from lakesweep.catalog.entities import KINDS, split
from lakesweep.catalog.grants import EntityRef, entity_ref
from lakesweep.catalog.metadata_memo import read_memo
from lakesweep.catalog.policy_mappings import PolicyMapping
from lakesweep.errors import UsageError
from lakesweep.iceberg.policy_documents import PolicyContent
from lakesweep.operations.catalogs.catalogs import changed_properties
from lakesweep.operations.catalogs.views import (
    EntityLine,
    EntityPageView,
    EntityView,
    MappingView,
    TableView,
    extend,
    full_name,
    open_catalogs,
    path_within,
    securable,
    split_entity,
)
from lakesweep.operations.interaction import Confirm

_PAGE = 1_000
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateEntityRequest:
    """A new entity; `fields` are those of its kind.

    The metadata file of a table or view is read, unless `read_metadata` is False.
    """

    name: str
    kind: EntityType
    fields: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    read_metadata: bool = True
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateEntityRequest:
    """Changes to an entity; everything not given stays.

    With a `version`, the change is refused if the entity has changed since.
    """

    name: str
    kind: EntityType
    fields: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    version: int | None = None
    read_metadata: bool = True
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One page of the entities in a catalog or namespace; `token` continues a listing."""

    within: str
    kind: EntityType
    size: int = 100
    token: str | None = None
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class RenameEntityRequest:
    """A new full name in the same catalog."""

    name: str
    to: str
    kind: EntityType
    version: int | None = None
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class DropEntityRequest:
    """Drop an entity. No file is deleted."""

    name: str
    kind: EntityType
    version: int | None = None
    dry_run: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class UndropEntityRequest:
    """Restore a dropped table or view; `id` chooses among several with the same name."""

    name: str
    to: str | None = None
    id: int | None = None
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyMappingRequest:
    """Attach a policy to a target, or detach it; only attaching uses the parameters."""

    policy: str
    target: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    realm: str | None = None


class PolicyMappingResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a mapping was changed."""

    policy: str
    target: str
    changed: bool


def create_entity(app: App, request: CreateEntityRequest) -> EntityView:
    """Create an entity. A wrong metadata address fails here, if the file is read."""
    fields, memo = _read_metadata(app, request)
    entity = _type(request.kind)(**fields, properties=dict(request.properties))
    catalog, path = _open(app, request.realm, request.name)
    return _apply(catalog, path, Create(path, entity, memo))


def update_entity(app: App, request: UpdateEntityRequest) -> EntityView:
    """Change an entity."""
    if not (request.fields or request.properties or request.unset):
        raise UsageError("there is nothing to change", hint="--help lists the options")
    catalog, path = _open(app, request.realm, request.name)
    before = _get(catalog, path, request.kind)
    is_same = request.fields.get("metadata_location") == getattr(before, "metadata_location", None)
    fields, memo = _read_metadata(app, request)
    properties = changed_properties(before.properties, request.properties, request.unset)
    entity = msgspec.structs.replace(before, **fields, properties=properties)
    # A concurrent change since it was read must not be lost.
    expected = before.version if request.version is None else request.version
    return _apply(catalog, path, Update(path, entity, expected, None if is_same else memo))


def list_entities(
    app: App, within: str, kind: EntityType, realm: str | None = None
) -> Iterator[EntityLine]:
    """All entities of one kind in a catalog or namespace, by name, as of one moment."""
    catalog, place = _open_place(app, realm, within)
    token: str | None = None
    while True:
        page = catalog.list(place, [kind], size=_PAGE, token=token)
        for entity in page.items:
            yield EntityLine.of(full_name(catalog.name, (*place, entity.name)), entity)
        token = page.token
        if token is None:
            return


def page_entities(app: App, request: PageRequest) -> EntityPageView:
    """One page; all pages of a listing show one state."""
    catalog, place = _open_place(app, request.realm, request.within)
    page = catalog.list(place, [request.kind], size=request.size, token=request.token)
    views = (_view(catalog, (*place, entity.name), entity) for entity in page.items)
    return EntityPageView(entities=tuple(views), token=page.token)


def show_entity(app: App, name: str, kind: EntityType, realm: str | None = None) -> EntityView:
    """One entity; of a table or view also what its metadata file said."""
    catalog, path = _open(app, realm, name)
    entity = _get(catalog, path, kind)
    view = _view(catalog, path, entity)
    memo = catalog.memo(entity) if isinstance(entity, Table | View) else None
    if memo is None:
        return view
    return extend(
        TableView,
        view,
        uuid=memo.uuid,
        format_version=memo.format_version,
        snapshots=memo.snapshots,
        gc_enabled=memo.gc_enabled,
    )


def rename_entity(app: App, request: RenameEntityRequest) -> EntityView:
    """Give an entity another name, another namespace, or both."""
    catalog, path = _open(app, request.realm, request.name)
    new = path_within(catalog, request.to)
    return _apply(catalog, new, Rename(path, new, request.version, request.kind))


def drop_entity(app: App, request: DropEntityRequest, confirm: Confirm[EntityView]) -> EntityView:
    """Drop an entity. Tables and views keep their files for a while and can be restored."""
    catalog, path = _open(app, request.realm, request.name)
    entity = _get(catalog, path, request.kind)
    preview = _view(catalog, path, entity, "not-applied")
    confirm(preview)
    if request.dry_run:
        return preview
    return _apply(catalog, path, Drop(path, request.version, request.kind))


def undrop_entity(app: App, request: UndropEntityRequest) -> EntityView:
    """Restore a dropped table or view with its id, so that its grants and policies hold again."""
    catalog, path = _open(app, request.realm, request.name)
    new = path if request.to is None else path_within(catalog, request.to)
    return _apply(catalog, new, Undrop(path, new, request.id))


def attach_policy(app: App, request: PolicyMappingRequest) -> PolicyMappingResult:
    """Attach a policy to a catalog, namespace or table; at most one of each type."""
    catalogs = open_catalogs(app, request.realm)
    policy, type_ = _policy(catalogs, request.policy)
    target = securable(catalogs, request.target)
    changed = catalogs.mappings.attach(policy, type_, target, dict(request.parameters))
    return PolicyMappingResult(policy=request.policy, target=request.target, changed=changed)


def detach_policy(app: App, request: PolicyMappingRequest) -> PolicyMappingResult:
    """Detach a policy."""
    catalogs = open_catalogs(app, request.realm)
    policy, _ = _policy(catalogs, request.policy)
    changed = catalogs.mappings.detach(policy, securable(catalogs, request.target))
    return PolicyMappingResult(policy=request.policy, target=request.target, changed=changed)


def attached_policies(app: App, target: str, realm: str | None = None) -> Iterator[MappingView]:
    """The policies attached to a target."""
    catalogs = open_catalogs(app, realm)
    for mapping in catalogs.mappings.on(securable(catalogs, target).id):
        yield _mapping(catalogs, target, mapping)


class ApplicablePolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in force; `origin` says where it is attached."""

    name: str
    type: str
    origin: str
    content: PolicyContent


def policies_in_force(
    app: App, target: str, realm: str | None = None
) -> Iterator[ApplicablePolicyView]:
    """The upkeep policies that apply to a target: the nearest of each type."""
    catalogs = open_catalogs(app, realm)
    top, *path = split(target)
    for each in applicable_policies(catalogs, catalogs.open(top), tuple(path)):
        yield ApplicablePolicyView(
            name=each.name, type=each.type, origin=each.origin, content=each.content
        )


def _open(app: App, realm: str | None, name: str) -> tuple[Catalog, Path]:
    catalog, path = split_entity(name)
    return open_catalogs(app, realm).open(catalog), path


def _open_place(app: App, realm: str | None, within: str) -> tuple[Catalog, Path]:
    top, *path = split(within)
    return open_catalogs(app, realm).open(top), tuple(path)


def _get(catalog: Catalog, path: Path, kind: EntityType) -> Entity:
    return catalog.snapshot(fresh=True).get(path, kind)


def _apply(catalog: Catalog, path: Path, mutation: Mutation) -> EntityView:
    """Make one change; the entity then has this path."""
    (result,) = catalog.apply([mutation]).results
    assert result.entity is not None
    return _view(catalog, path, result.entity, result.status)


def _view(catalog: Catalog, path: Path, entity: Entity, status: str | None = None) -> EntityView:
    name = full_name(catalog.name, path)
    return EntityView.named(name, entity, status=msgspec.UNSET if status is None else status)


def _type(kind: EntityType) -> Callable[..., Entity]:
    return next(each for each, its_kind in KINDS.items() if its_kind is kind)


def _read_metadata(
    app: App, request: CreateEntityRequest | UpdateEntityRequest
) -> tuple[dict[str, str], TableMemo | None]:
    """The fields, with the location from the metadata file unless one is given, and its memo."""
    fields = dict(request.fields)
    metadata = fields.get("metadata_location")
    if metadata is None or not request.read_metadata:
        return fields, None
    memo = read_memo(app.stores, metadata, view=request.kind is EntityType.VIEW)
    fields.setdefault("location", memo.location)
    return fields, memo


def _policy(catalogs: Catalogs, name: str) -> tuple[EntityRef, str]:
    top, path = split_entity(name)
    catalog = catalogs.open(top)
    entity = _get(catalog, path, EntityType.POLICY)
    assert isinstance(entity, CatalogPolicy)
    return entity_ref(entity, catalog.id), entity.type


def _mapping(catalogs: Catalogs, target: str, mapping: PolicyMapping) -> MappingView:
    catalog = catalogs.open_id(mapping.policy.catalog)
    entries = catalog.snapshot().entries
    name = str(mapping.policy.id)
    if entries.by_id(mapping.policy.id) is not None:
        name = full_name(catalog.name, entries.path(mapping.policy.id))
    return MappingView(
        policy=name, type=mapping.type, target=target, parameters=dict(mapping.parameters)
    )
