"""Endpoints for reaching files: what a client gets for a table, and requests signed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lakesweep.catalog.entities import EntityType
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError
from lakesweep.catalog.warehouse.storage_access import (
    StorageAccess,
    TableAccess,
    access_of,
    handed_out,
    s3_scope,
    table_access,
)
from lakesweep.catalog.warehouse.warehouse import LoadedEntity
from lakesweep.clock import micros
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded
from lakesweep.storage.s3.delegation import UnsignedRequest, sign

_DELEGATION, _VENDED = "x-iceberg-access-delegation", "vended-credentials"
#: Vended keys live for an hour; an answer with them may be used again for half of it.
_FRESH_MICROS = 1800 * 1_000_000
_PRIVATE = {"Cache-Control": "private"}


class SignBody(msgspec.Struct, frozen=True):
    """A request to the storage that a client wants signed."""

    uri: str
    method: str
    headers: dict[str, tuple[str, ...]]
    body: str | None = None
    provider: str = "s3"


class SignedRequest(msgspec.Struct, frozen=True):
    """The same request with the headers to send it with."""

    uri: str
    headers: Mapping[str, Sequence[str]]


class StorageCredential(msgspec.Struct, frozen=True):
    """Keys for everything below a prefix."""

    prefix: str
    config: Mapping[str, str]


def access_for(call: IcebergCall, loaded: LoadedEntity) -> TableAccess:
    """What the caller gets for a table: according to its privileges, and as it asked."""
    catalog = call.warehouse.catalog
    way = access_of(catalog)
    asks = _VENDED in call.headers.get(_DELEGATION, "")
    is_given = way is StorageAccess.SIGN or (way is StorageAccess.STS and asks)
    if not is_given or not call.may(Privilege.READ_DATA, call.path_of(loaded)):
        return TableAccess(handed_out(catalog))
    return _access(call, loaded)


def tag_of_access(call: IcebergCall, loaded: LoadedEntity) -> str:
    """What an answer depends on beside its table; it ends before keys do."""
    catalog = call.warehouse.catalog
    way = access_of(catalog)
    if way is StorageAccess.NONE:
        return str(catalog.definition.version)
    asks = _VENDED in call.headers.get(_DELEGATION, "")
    path = call.path_of(loaded)
    rights = [call.may(each, path) for each in (Privilege.READ_DATA, Privilege.WRITE_DATA)]
    now = micros(call.around.app.clock.now()) // _FRESH_MICROS
    return f"{catalog.definition.version} {way} {asks} {rights} {now}"


def credentials(call: IcebergCall) -> IcebergReply:
    """New keys for a table, for a client whose keys end soon."""
    loaded = call.warehouse.load(call.path, EntityType.TABLE)
    found: tuple[StorageCredential, ...] = ()
    access = TableAccess()
    if access_of(call.warehouse.catalog) is StorageAccess.STS:
        access = _access(call, loaded)
    if access.credentials:
        found = (StorageCredential(access.prefix, access.credentials),)
    return IcebergReply(msgspec.json.encode({"storage-credentials": found}), headers=_PRIVATE)


def _access(call: IcebergCall, loaded: LoadedEntity) -> TableAccess:
    path = call.path_of(loaded)
    return table_access(
        call.warehouse.catalog,
        call.around.app.stores,
        loaded.file,
        f"{call.relative_path(path)}/sign",
        may_write=call.may(Privilege.WRITE_DATA, path),
        now_ms=call.warehouse.now_ms(),
    )


def sign_request(call: IcebergCall) -> IcebergReply:
    """Sign a request to the files of a table, and to nothing else."""
    given = call.decode(SignBody)
    catalog = call.warehouse.catalog
    loaded = call.warehouse.load(call.path, EntityType.TABLE)
    may_write = call.may(Privilege.WRITE_DATA, call.path)
    scope = None
    if access_of(catalog) is StorageAccess.SIGN and given.provider == "s3":
        scope = s3_scope(catalog, call.around.app.stores, loaded.file, may_write=may_write)
    if scope is None:
        raise WarehouseError(ProblemType.FORBIDDEN, "requests for this table are not signed here")
    request = UnsignedRequest(given.method, given.uri, given.headers, given.body)
    answer = encoded(SignedRequest(given.uri, sign(request, scope)))
    return IcebergReply(answer.body, headers=_PRIVATE)
