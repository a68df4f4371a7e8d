"""Endpoints of tables."""

from __future__ import annotations

import hashlib
from http import HTTPStatus

import msgspec
from msgspec import Raw

from lakesweep.catalog.entities import EntityType
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.problems import Path, bad_request
from lakesweep.catalog.warehouse.storage_access import TableAccess
from lakesweep.catalog.warehouse.tables import (
    NewTableRequest,
    TableChange,
    commit_tables,
    create_table,
    drop_table,
    register_table,
    rename,
)
from lakesweep.catalog.warehouse.warehouse import LoadedEntity
from lakesweep.server.iceberg.access import StorageCredential, access_for, tag_of_access
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded


class IdentifierBody(msgspec.Struct, frozen=True):
    """A table or view by its name."""

    namespace: tuple[str, ...]
    name: str

    @property
    def path(self) -> Path:
        return (*self.namespace, self.name)


class IdentifierList(msgspec.Struct, frozen=True, rename="kebab"):
    """Some tables or views of a namespace."""

    identifiers: tuple[IdentifierBody, ...]
    next_page_token: str | None = None


class RegisterBody(msgspec.Struct, frozen=True, rename="kebab"):
    """A table or view that exists already."""

    name: str
    metadata_location: str
    overwrite: bool = False


class RenameBody(msgspec.Struct, frozen=True):
    """Another name."""

    source: IdentifierBody
    destination: IdentifierBody


class CommitBody(msgspec.Struct, frozen=True):
    """A commit to one table or view."""

    updates: Raw
    requirements: Raw = Raw(b"[]")
    identifier: IdentifierBody | None = None


class TransactionBody(msgspec.Struct, frozen=True, rename="kebab"):
    """Commits to many tables."""

    table_changes: tuple[CommitBody, ...]


def list_all(call: IcebergCall) -> IcebergReply:
    """The tables of a namespace."""
    return list_kind(call, EntityType.TABLE)


def list_kind(call: IcebergCall, kind: EntityType) -> IcebergReply:
    """The tables or views of a namespace."""
    page = call.warehouse.names(call.namespace, [kind], *call.page())
    found = tuple(IdentifierBody(path[:-1], path[-1]) for path in page.names)
    return encoded(IdentifierList(found, page.token))


def create(call: IcebergCall) -> IcebergReply:
    """A new table, or one that is staged for a later commit."""
    given = call.decode(NewTableRequest)
    return answer(call, create_table(call.warehouse, call.namespace, given), has_access=True)


def register(call: IcebergCall) -> IcebergReply:
    """Add a table by its metadata file."""
    given = call.decode(RegisterBody)
    path = (*call.namespace, given.name)
    if given.overwrite:
        call.check(Privilege.WRITE_METADATA, path)
        call.check(Privilege.DROP, path)
    found = register_table(call.warehouse, path, given.metadata_location, overwrite=given.overwrite)
    return answer(call, found, has_access=True)


def load(call: IcebergCall) -> IcebergReply:
    """A table with its metadata; of its snapshots all, or those that refs point to."""
    asked = call.query.get("snapshots", "all").lower()
    if asked not in ("all", "refs"):
        raise bad_request("snapshots is all or refs")
    loaded = call.warehouse.load(call.path, EntityType.TABLE)
    is_all = asked == "all"
    tag = _tag(call, loaded, asked)
    if call.headers.get("if-none-match") == tag:
        return IcebergReply(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
    content = loaded.file.content if is_all else loaded.file.with_refs_only()
    access = access_for(call, loaded)
    return IcebergReply(_result(loaded, content, access), headers={"ETag": tag})


def exists(call: IcebergCall) -> IcebergReply:
    """Whether a table exists."""
    call.warehouse.find(call.path, EntityType.TABLE)
    return IcebergReply()


def commit(call: IcebergCall) -> IcebergReply:
    """Change a table, or create one that was staged."""
    change = _change(call, call.decode(CommitBody), call.path)
    return answer(call, commit_tables(call.warehouse, [change])[0])


def commit_many(call: IcebergCall) -> IcebergReply:
    """Change many tables, all or none."""
    given = call.decode(TransactionBody)
    if not given.table_changes:
        raise bad_request("a transaction changes one table at least")
    changes = []
    for each in given.table_changes:
        if each.identifier is None:
            raise bad_request("every change of a transaction has an identifier")
        changes.append(_change(call, each, each.identifier.path))
    commit_tables(call.warehouse, changes)
    return IcebergReply()


def _change(call: IcebergCall, body: CommitBody, path: Path) -> TableChange:
    change = TableChange.decode(path, body.requirements, body.updates)
    if change.creates:
        call.check(Privilege.CREATE_TABLE, path[:-1])
    else:
        call.check(Privilege.WRITE_METADATA, path)
    return change


def drop(call: IcebergCall) -> IcebergReply:
    """Drop a table. Files are deleted by sweeps, never here."""
    purge = call.flag("purgeRequested")
    if purge:
        call.check(Privilege.WRITE_DATA, call.path)
    drop_table(call.warehouse, call.path, purge=purge)
    return IcebergReply()


def move(call: IcebergCall) -> IcebergReply:
    """Give a table another name."""
    return move_kind(call, EntityType.TABLE, Privilege.CREATE_TABLE)


def move_kind(call: IcebergCall, kind: EntityType, privilege: Privilege) -> IcebergReply:
    """Give a table or view another name."""
    given = call.decode(RenameBody)
    call.check(Privilege.DROP, given.source.path)
    call.check(privilege, given.destination.namespace)
    rename(call.warehouse, given.source.path, given.destination.path, kind)
    return IcebergReply()


def report(call: IcebergCall) -> IcebergReply:
    """Take what a client says of a scan or a commit. Nothing is kept of it."""
    call.warehouse.find(call.path, EntityType.TABLE)
    return IcebergReply()


class NamedBody(msgspec.Struct, frozen=True):
    """What creates something: its name, as far as it matters here."""

    name: str


def reload(call: IcebergCall) -> IcebergReply:
    """The answer to a change that was made before: the table as it is now."""
    return reload_kind(call, EntityType.TABLE)


def reload_kind(call: IcebergCall, kind: EntityType) -> IcebergReply:
    """The same for tables and views; those that were created have their name in the body."""
    if "name" in call.parts:
        return answer(call, call.warehouse.load(call.path, kind))
    name = call.decode(NamedBody).name
    name = call.sent_name(name) if kind is EntityType.VIEW else name
    return answer(call, call.warehouse.load((*call.namespace, name), kind))


def answer(call: IcebergCall, loaded: LoadedEntity, *, has_access: bool = False) -> IcebergReply:
    """A table as it is after a change; a new one comes with access to its files."""
    headers = {} if loaded.entity is None else {"ETag": _tag(call, loaded, "all")}
    access = access_for(call, loaded) if has_access else TableAccess()
    return IcebergReply(_result(loaded, loaded.file.content, access), headers=headers)


def _tag(call: IcebergCall, loaded: LoadedEntity, snapshots: str) -> str:
    catalog, access = str(call.warehouse.catalog.id), tag_of_access(call, loaded)
    parts = (catalog, loaded.file.location, snapshots, access)
    return f'W/"{hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]}"'


def _result(loaded: LoadedEntity, content: bytes, access: TableAccess) -> bytes:
    """The metadata goes out as the bytes that its file has."""
    location = msgspec.json.encode(loaded.file.location or None)
    config = msgspec.json.encode(access.config)
    pieces = [b'{"metadata-location":', location, b',"metadata":', content, b',"config":', config]
    if access.credentials:
        vended = [StorageCredential(access.prefix, access.credentials)]
        pieces += [b',"storage-credentials":', msgspec.json.encode(vended)]
    return b"".join([*pieces, b"}"])


def unregister(call: IcebergCall) -> IcebergReply:
    """Take a table out of the catalog and return its last state. Its files stay."""
    last = drop_table(call.warehouse, call.path, purge=False)
    return answer(call, LoadedEntity(last, call.warehouse.files.read(last.metadata_location)))
