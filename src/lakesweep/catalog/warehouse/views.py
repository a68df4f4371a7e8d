"""Views of a warehouse. Of a commit only the view's id is checked: concurrent ones all land."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import msgspec
from msgspec import Raw

from lakesweep.catalog.commits import Drop
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import EntityType, View
from lakesweep.catalog.warehouse.places import default_place
from lakesweep.catalog.warehouse.problems import (
    Path,
    ProblemType,
    WarehouseError,
    bad_request,
    no_entity,
)
from lakesweep.catalog.warehouse.swaps import PointerChange, swap_pointers
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse, LoadedEntity
from lakesweep.errors import (
    CommitConflictError,
    EntityMissingError,
    FormatError,
    InvalidUpdateError,
)
from lakesweep.iceberg.document.creation import create_view_document
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    check_requirements,
    decode_view_requirements,
)
from lakesweep.iceberg.document.shapes import check_updates
from lakesweep.iceberg.document.updates import decode_view_updates
from lakesweep.iceberg.document.view_edit import apply_view_updates


class NewViewRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """A view to be created, as the protocol has it."""

    name: str
    schema: Raw
    view_version: Raw
    location: str | None = None
    properties: dict[str, str] | None = None


def create_view(
    warehouse: IcebergWarehouse, namespace: Path, request: NewViewRequest
) -> LoadedEntity:
    """Create a view."""
    path = (*namespace, request.name)
    document: RawDocument | None = None

    def prepare(view: ContentSnapshot) -> Sequence[PointerChange]:
        nonlocal document
        warehouse.check_free(path, EntityType.VIEW, view)
        document = document or _first_document(warehouse, view, path, request)
        return [PointerChange(path, View, None, document)]

    with warehouse.turn([path]):
        return swap_pointers(warehouse, prepare)[0]


def _first_document(
    warehouse: IcebergWarehouse, view: ContentSnapshot, path: Path, request: NewViewRequest
) -> RawDocument:
    location = request.location or default_place(warehouse.catalog, view, path)
    try:
        return create_view_document(
            request.schema,
            request.view_version,
            request.properties or {},
            location=location.rstrip("/"),
            uuid=str(uuid4()),
            now_ms=warehouse.now_ms(),
        )
    except (InvalidUpdateError, FormatError) as error:
        raise WarehouseError(ProblemType.ILLEGAL_ARGUMENT, error.message) from None


def commit_view(
    warehouse: IcebergWarehouse, path: Path, requirements: Raw, updates: Raw
) -> LoadedEntity:
    """Replace a view, or change its properties."""
    try:
        asserted, changes = decode_view_requirements(requirements), decode_view_updates(updates)
        check_updates(changes)
    except InvalidUpdateError as error:
        raise bad_request(error.message) from None

    def prepare(view: ContentSnapshot) -> Sequence[PointerChange]:
        entity = warehouse.find(path, EntityType.VIEW, view)
        assert isinstance(entity, View)
        before = LoadedEntity(entity, warehouse.files.read(entity.metadata_location))
        document = before.file.document
        try:
            check_requirements(document, asserted)
            after = apply_view_updates(document, changes, now_ms=warehouse.now_ms())
        except CommitConflictError as error:
            raise WarehouseError(ProblemType.COMMIT_FAILED, error.message) from None
        except (InvalidUpdateError, FormatError) as error:
            raise WarehouseError(ProblemType.ILLEGAL_ARGUMENT, error.message) from None
        return [PointerChange(path, View, before, after)]

    with warehouse.turn([path]):
        return swap_pointers(warehouse, prepare)[0]


def drop_view(warehouse: IcebergWarehouse, path: Path) -> None:
    """Drop a view. Until the catalog forgets it, it can be brought back."""
    warehouse.find(path, EntityType.VIEW)
    try:
        drop = Drop(path, kind=EntityType.VIEW)
        warehouse.apply([drop])
    except EntityMissingError:
        raise no_entity(EntityType.VIEW, path) from None
