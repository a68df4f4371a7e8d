"""Endpoints of views."""

from __future__ import annotations

import msgspec

from lakesweep.catalog.entities import EntityType, View
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.tables import register
from lakesweep.catalog.warehouse.views import (
    NewViewRequest,
    commit_view,
    create_view,
    drop_view,
)
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply
from lakesweep.server.iceberg.tables import (
    CommitBody,
    RegisterBody,
    answer,
    list_kind,
    move_kind,
    reload_kind,
)


def list_all(call: IcebergCall) -> IcebergReply:
    """The views of a namespace."""
    return list_kind(call, EntityType.VIEW)


def create(call: IcebergCall) -> IcebergReply:
    """A new view."""
    given = call.decode(NewViewRequest)
    named = msgspec.structs.replace(given, name=call.sent_name(given.name))
    return answer(call, create_view(call.warehouse, call.namespace, named))


def add(call: IcebergCall) -> IcebergReply:
    """Add a view by its metadata file."""
    given = call.decode(RegisterBody)
    path = (*call.namespace, call.sent_name(given.name))
    return answer(call, register(call.warehouse, path, given.metadata_location, View))


def load(call: IcebergCall) -> IcebergReply:
    """A view with its metadata."""
    return answer(call, call.warehouse.load(call.path, EntityType.VIEW))


def exists(call: IcebergCall) -> IcebergReply:
    """Whether a view exists."""
    call.warehouse.find(call.path, EntityType.VIEW)
    return IcebergReply()


def commit(call: IcebergCall) -> IcebergReply:
    """Replace a view, or change its properties."""
    given = call.decode(CommitBody)
    return answer(call, commit_view(call.warehouse, call.path, given.requirements, given.updates))


def drop(call: IcebergCall) -> IcebergReply:
    """Drop a view."""
    drop_view(call.warehouse, call.path)
    return IcebergReply()


def move(call: IcebergCall) -> IcebergReply:
    """Give a view another name."""
    return move_kind(call, EntityType.VIEW, Privilege.CREATE_VIEW)


def reload(call: IcebergCall) -> IcebergReply:
    """The answer to a change that was made before: the view as it is now."""
    return reload_kind(call, EntityType.VIEW)
