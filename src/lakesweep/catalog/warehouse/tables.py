"""Tables of a warehouse: created, staged, registered, committed to, renamed and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import msgspec
from msgspec import Raw

from lakesweep.catalog.commits import Create, Drop, Mutation, Rename, Update
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import EntityType, Table, View
from lakesweep.catalog.warehouse.metadata_files import (
    StoredMetadata,
    location_in,
    memo_of_file,
)
from lakesweep.catalog.warehouse.places import check_apart, check_place, check_places, default_place
from lakesweep.catalog.warehouse.problems import (
    Path,
    ProblemType,
    WarehouseError,
    bad_request,
    name_taken,
    no_entity,
    no_namespace,
    rename_taken,
)
from lakesweep.catalog.warehouse.swaps import PointerChange, swap_pointers
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse, LoadedEntity, checked
from lakesweep.errors import (
    CommitConflictError,
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    FormatError,
    InvalidUpdateError,
)
from lakesweep.iceberg.document.creation import (
    ABSENT,
    NewTable,
    begin_table_document,
    complete_table_document,
    create_table_document,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    AssertCreate,
    TableRequirement,
    check_requirements,
    decode_table_requirements,
)
from lakesweep.iceberg.document.shapes import check_updates
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import (
    SetLocation,
    TableUpdate,
    decode_table_updates,
)

#: A property of a dropped table: its client asked for its files to be deleted.
PURGE_REQUESTED = "purge-requested"
_TRIES = 5


class NewTableRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """A table to be created, as the protocol has it."""

    name: str
    schema: Raw
    location: str | None = None
    partition_spec: Raw = ABSENT
    write_order: Raw = ABSENT
    stage_create: bool = False
    properties: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TableChange:
    """A commit to one table: what must hold, and what is to change."""

    path: Path
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @classmethod
    def decode(cls, path: Path, requirements: Raw, updates: Raw) -> TableChange:
        """From a request; WarehouseError if anything in it is unknown or malformed."""
        try:
            change = cls(
                path, decode_table_requirements(requirements), decode_table_updates(updates)
            )
            check_updates(change.updates)
        except InvalidUpdateError as error:
            raise bad_request(error.message) from None
        return change

    @property
    def creates(self) -> bool:
        """Whether it ends a staged creation."""
        return any(isinstance(each, AssertCreate) for each in self.requirements)


def create_table(
    warehouse: IcebergWarehouse, namespace: Path, request: NewTableRequest
) -> LoadedEntity:
    """Create a table, or only stage it: then nothing is stored, and its name stays free."""
    path = (*namespace, request.name)
    document: RawDocument | None = None

    def prepare(view: ContentSnapshot) -> Sequence[PointerChange]:
        nonlocal document
        warehouse.check_free(path, EntityType.TABLE, view)
        document = document or _first_document(warehouse, view, path, request)
        return [PointerChange(path, Table, None, document)]

    if request.stage_create:
        (change,) = prepare(warehouse.look())
        check_places(warehouse.catalog, None, change.document)
        return LoadedEntity(None, StoredMetadata("", change.document.encode(), change.document))
    with warehouse.turn([path]):
        return swap_pointers(warehouse, prepare)[0]


def _first_document(
    warehouse: IcebergWarehouse, view: ContentSnapshot, path: Path, request: NewTableRequest
) -> RawDocument:
    location = request.location or default_place(warehouse.catalog, view, path)
    new = NewTable(
        request.schema, request.partition_spec, request.write_order, request.properties or {}
    )
    try:
        return create_table_document(
            new, location=location.rstrip("/"), uuid=str(uuid4()), now_ms=warehouse.now_ms()
        )
    except InvalidUpdateError as error:
        raise WarehouseError(ProblemType.ILLEGAL_ARGUMENT, error.message) from None


def commit_tables(
    warehouse: IcebergWarehouse, changes: Sequence[TableChange]
) -> Sequence[LoadedEntity]:
    """Commit to one or many tables at once. A table may be named twice; the order counts."""

    def prepare(view: ContentSnapshot) -> Sequence[PointerChange]:
        states: dict[Path, PointerChange] = {}
        for change in changes:
            state = states.get(change.path)
            before = state.before if state else _present(warehouse, view, change)
            document = before.file.document if before else None
            document = state.document if state else document
            after = _changed(warehouse, view, change, before, document)
            states[change.path] = PointerChange(change.path, Table, before, after)
        return list(states.values())

    with warehouse.turn([change.path for change in changes]):
        return swap_pointers(warehouse, prepare)


def _present(
    warehouse: IcebergWarehouse, view: ContentSnapshot, change: TableChange
) -> LoadedEntity | None:
    """The table as it is; None if it is to be created and does not exist."""
    path = checked(change.path)
    found = view.entries.find(path) if len(path) > 1 else None
    if change.creates and found is None:
        warehouse.check_namespace(path[:-1], view)
        return None
    if change.creates and found is not None and found.named.kind is not EntityType.TABLE:
        raise name_taken(EntityType.TABLE, found.named.kind, path)
    table = warehouse.find(path, EntityType.TABLE, view)
    assert isinstance(table, Table)
    return LoadedEntity(table, warehouse.files.read(table.metadata_location))


def _changed(
    warehouse: IcebergWarehouse,
    view: ContentSnapshot,
    change: TableChange,
    before: LoadedEntity | None,
    document: RawDocument | None,
) -> RawDocument:
    """The document after a change; the same one if nothing changes."""
    try:
        check_requirements(document, change.requirements)
        if document is None:
            return _created(warehouse, view, change)
        is_first = before is not None and document is before.file.document
        return apply_table_updates(
            document,
            change.updates,
            now_ms=warehouse.now_ms(),
            location=before.file.location if before and is_first else None,
        )
    except CommitConflictError as error:
        raise WarehouseError(ProblemType.COMMIT_FAILED, error.message) from None
    except (InvalidUpdateError, FormatError) as error:
        raise bad_request(error.message) from None


def _created(
    warehouse: IcebergWarehouse, view: ContentSnapshot, change: TableChange
) -> RawDocument:
    """The first document of a staged table, from the updates that its client collected."""
    updates, now_ms = change.updates, warehouse.now_ms()
    if not any(isinstance(each, SetLocation) for each in updates):
        place = default_place(warehouse.catalog, view, change.path)
        updates = (*updates, SetLocation(location=place))
    document = apply_table_updates(
        begin_table_document(updates), updates, now_ms=now_ms, location=None
    )
    return complete_table_document(document, uuid=str(uuid4()), now_ms=now_ms)


def register_table(
    warehouse: IcebergWarehouse, path: Path, metadata_location: str, *, overwrite: bool = False
) -> LoadedEntity:
    """Add a table that exists already; with `overwrite`, in the place of one that is there."""
    return register(warehouse, path, metadata_location, Table, overwrite=overwrite)


def register(
    warehouse: IcebergWarehouse,
    path: Path,
    metadata_location: str,
    kind: type[Table | View],
    *,
    overwrite: bool = False,
) -> LoadedEntity:
    """Add a table or view by its metadata file, which keeps its id and its location."""
    type_ = EntityType.TABLE if kind is Table else EntityType.VIEW
    check_place(warehouse.catalog, metadata_location, "metadata-location")
    file = read_foreign(warehouse, metadata_location, kind)
    check_places(warehouse.catalog, None, file.document)
    memo, location = memo_of_file(file), location_in(file.document)
    for _ in range(_TRIES):
        view = warehouse.look()
        found = view.find(checked(path)) if overwrite else None
        check_apart(view, found.id if found else None, None, file.document)
        mutation: Mutation
        if isinstance(found, kind):
            assert isinstance(found, Table | View)
            after = msgspec.structs.replace(
                found, metadata_location=metadata_location, location=location
            )
            mutation = Update(path, after, found.version, memo)
        else:
            warehouse.check_free(path, type_, view)
            new = kind(metadata_location=metadata_location, location=location)
            mutation = Create(path, new, memo)
        try:
            result = warehouse.apply([mutation]).results[0]
        except (EntityExistsError, EntityChangedError, EntityMissingError):
            continue
        assert isinstance(result.entity, Table | View)
        return LoadedEntity(result.entity, file)
    raise WarehouseError(ProblemType.COMMIT_FAILED, "the name changed hands too often")


def read_foreign(
    warehouse: IcebergWarehouse, location: str, kind: type[Table | View]
) -> StoredMetadata:
    """A metadata file that a client names; WarehouseError if it is none of that kind."""
    try:
        file = warehouse.files.read(location)
        field = "table-uuid" if kind is Table else "view-uuid"
        other = "view-uuid" if kind is Table else "table-uuid"
        is_other = file.document.get(other, str | None) is not None
        is_v1 = kind is Table and file.document.format_version == 1 and not is_other
        is_right = file.document.get(field, str | None) is not None or is_v1
        memo_of_file(file)
    except FormatError as error:
        raise bad_request(error.message) from None
    if not is_right or not location_in(file.document):
        noun = "table" if kind is Table else "view"
        raise bad_request(f"{location} is not the metadata of a {noun}")
    return file


def drop_table(warehouse: IcebergWarehouse, path: Path, *, purge: bool) -> Table:
    """Drop a table; its last state. Its files stay, also if they are to be purged.

    Sweeps delete them later. Until the catalog forgets it, the table can be brought back.
    """
    for _ in range(_TRIES):
        table = warehouse.find(path, EntityType.TABLE)
        mutations: list[Mutation] = [Drop(path, kind=EntityType.TABLE)]
        if purge:
            noted = {**table.properties, PURGE_REQUESTED: "true"}
            marked = msgspec.structs.replace(table, properties=noted)
            mutations.insert(0, Update(path, marked, table.version))
        try:
            dropped = warehouse.apply(mutations).results[len(mutations) - 1].entity
        except EntityMissingError:
            raise no_entity(EntityType.TABLE, path) from None
        except EntityChangedError:
            continue
        assert isinstance(dropped, Table)
        return dropped
    raise WarehouseError(ProblemType.UNAVAILABLE, "the table is being changed by others")


def rename(warehouse: IcebergWarehouse, source: Path, target: Path, kind: EntityType) -> None:
    """Give a table or view another name, in any namespace. Its files stay where they are."""
    view = warehouse.look()
    warehouse.find(source, kind, view)
    warehouse.check_namespace(target[:-1], view)
    try:
        move = Rename(source, checked(target), kind=kind)
        warehouse.apply([move])
    except EntityExistsError:
        found = warehouse.look().entries.find(target)
        raise rename_taken(found.named.kind if found else kind, source, target) from None
    except EntityMissingError:
        warehouse.find(source, kind)
        raise no_namespace(target[:-1]) from None
