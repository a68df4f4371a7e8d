"""Use cases of catalogs: create, list, show, update, drop, purge, find by address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from lakesweep.app import App
from lakesweep.catalog import Catalog, Catalogs
from lakesweep.catalog.entities import CONTENT_KINDS, CatalogStatus
from lakesweep.clock import moment
from lakesweep.operations.catalogs.views import (
    CatalogList,
    CatalogView,
    DroppedView,
    EntityLine,
    EntityView,
    extend,
    full_name,
    open_catalogs,
)
from lakesweep.operations.interaction import Confirm
from lakesweep.units import format_duration


@dataclass(frozen=True, slots=True)
class CreateCatalogRequest:
    """A new catalog; dropped tables keep their files for `keep_dropped`."""

    name: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    keep_dropped: timedelta = timedelta(days=7)
    allow_overlaps: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateCatalogRequest:
    """Changes to a catalog; None leaves a setting as it is.

    With a `version`, the properties and the location change only if it is still the current one.
    """

    name: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    keep_dropped: timedelta | None = None
    allow_overlaps: bool | None = None
    version: int | None = None
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveCatalogRequest:
    """Drop an empty catalog, or purge one with everything in it."""

    name: str
    dry_run: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogPreview:
    """What a catalog holds: entities, and dropped ones that still keep their files."""

    catalog: str
    entities: int
    dropped: int


class RemovedCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """A removed catalog; its tables keep their files until it `ends`."""

    catalog: str
    status: str
    ends: datetime | None
    dry_run: bool


def create_catalog(app: App, request: CreateCatalogRequest) -> EntityView:
    """Create a catalog."""
    catalog = open_catalogs(app, request.realm).create(
        request.name,
        location=request.location,
        properties=dict(request.properties),
        keep_dropped=request.keep_dropped,
        allow_overlaps=request.allow_overlaps,
    )
    return _view(catalog)


def list_catalogs(app: App, realm: str | None = None) -> CatalogList:
    """All catalogs, also those that are being purged."""
    return CatalogList(tuple(map(_view, open_catalogs(app, realm).every(fresh=True))))


def show_catalog(app: App, name: str, realm: str | None = None) -> CatalogView:
    """One catalog with its settings, and how many entities it holds."""
    catalog = open_catalogs(app, realm).open(name)
    return msgspec.structs.replace(_with_settings(catalog), **_count(catalog))


def update_catalog(app: App, request: UpdateCatalogRequest) -> CatalogView:
    """Change the properties and settings of a catalog."""
    catalogs = open_catalogs(app, request.realm)
    catalog = catalogs.open(request.name)
    properties = changed_properties(
        catalog.definition.properties, request.properties, request.unset
    )
    updated = catalogs.update(
        catalog, location=request.location, properties=properties, version=request.version
    )
    is_configured = catalog.configure(
        keep_dropped=request.keep_dropped, allow_overlaps=request.allow_overlaps
    )
    status = "updated" if is_configured else updated.value
    catalog = catalogs.open_id(catalog.id, fresh=True)
    return msgspec.structs.replace(_with_settings(catalog), status=status)


def drop_catalog(
    app: App, request: RemoveCatalogRequest, confirm: Confirm[CatalogPreview]
) -> RemovedCatalog:
    """Drop an empty catalog."""
    catalogs = open_catalogs(app, request.realm)
    catalog = catalogs.open(request.name)
    catalog.check_empty()
    confirm(CatalogPreview(request.name, 0, 0))
    if not request.dry_run:
        catalog = catalogs.drop(request.name)
    return _removed(catalogs, catalog, dry_run=request.dry_run)


def purge_catalog(
    app: App, request: RemoveCatalogRequest, confirm: Confirm[CatalogPreview]
) -> RemovedCatalog:
    """Drop a catalog with everything in it. No file is deleted."""
    catalogs = open_catalogs(app, request.realm)
    catalog = catalogs.open(request.name)
    found = _count(catalog)
    dropped = found.pop("dropped")
    confirm(CatalogPreview(request.name, sum(found.values()), dropped))
    if not request.dry_run:
        catalog = catalogs.purge(request.name)
    return _removed(catalogs, catalog, dry_run=request.dry_run)


def find_at_address(
    app: App, name: str, address: str, realm: str | None = None
) -> Iterator[EntityLine]:
    """The entities of a catalog with files at, above or below an address."""
    found = open_catalogs(app, realm).open(name).at(address)
    return (EntityLine.of(full_name(name, path), entity) for entity, path in found)


def list_dropped(app: App, name: str, realm: str | None = None) -> Iterator[DroppedView]:
    """What was dropped from a catalog and still keeps its files, oldest first."""
    catalog = open_catalogs(app, realm).open(name)
    snapshot = catalog.snapshot(fresh=True)
    kept = timedelta(seconds=snapshot.head.keep_dropped_seconds)
    for at, each in snapshot.dropped(catalog.now()):
        yield DroppedView(
            name=full_name(name, each.path),
            kind=each.kind,
            id=str(each.id),
            dropped=moment(at),
            until=moment(at) + kept,
        )


def changed_properties(
    before: Mapping[str, str], given: Mapping[str, str], unset: Sequence[str]
) -> dict[str, str]:
    """Properties after some were set and others removed."""
    return {key: value for key, value in before.items() if key not in set(unset)} | dict(given)


def _view(catalog: Catalog) -> EntityView:
    return EntityView.named(catalog.name, catalog.definition)


def _with_settings(catalog: Catalog) -> CatalogView:
    head = catalog.snapshot(fresh=True).head
    kept = format_duration(timedelta(seconds=head.keep_dropped_seconds))
    return extend(
        CatalogView, _view(catalog), keep_dropped=kept, allow_overlaps=head.allow_overlaps
    )


def _count(catalog: Catalog) -> dict[str, int]:
    """How many entities of each kind there are, and how many `dropped` ones keep their files."""
    snapshot = catalog.snapshot(fresh=True)
    counts = dict.fromkeys((kind.value.replace("-", "_") for kind in sorted(CONTENT_KINDS)), 0)
    for _, found in snapshot.all():
        counts[found.named.kind.value.replace("-", "_")] += 1
    return {**counts, "dropped": sum(1 for _ in snapshot.dropped(catalog.now()))}


def _removed(catalogs: Catalogs, catalog: Catalog, *, dry_run: bool) -> RemovedCatalog:
    is_gone = not dry_run and catalogs.end(catalog)
    status: CatalogStatus = catalog.definition.status
    return RemovedCatalog(
        catalog=catalog.name,
        status="gone" if is_gone else status.value,
        ends=None if dry_run or is_gone else moment(catalogs.ends_at(catalog)),
        dry_run=dry_run,
    )
