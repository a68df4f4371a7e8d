"""What was dropped from a catalog and still keeps its files, and how it is brought back."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lakesweep.operations.catalogs.catalogs import list_dropped
from lakesweep.operations.catalogs.entities import UndropEntityRequest, undrop_entity
from lakesweep.operations.catalogs.views import DroppedView, EntityView, full_name
from lakesweep.server.api.call import Call
from lakesweep.server.api.pages import ListRequest, page_of


class DroppedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what was dropped, oldest first."""

    dropped: tuple[DroppedView, ...]
    next: str | None = None


class UndropBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to bring back: the parts of its name, those of another one, and which of several."""

    name: tuple[str, ...]
    to: tuple[str, ...] | None = None
    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}$")] | None = None


def list_all(call: Call[ListRequest]) -> DroppedPage:
    """What a sweep does not touch yet."""
    found = sorted(list_dropped(call.app, call.names["catalog"]), key=_place)
    page, after = page_of(found, call.given, _place)
    return DroppedPage(dropped=tuple(page), next=after)


def _place(each: DroppedView) -> tuple[str, str]:
    return each.until.isoformat(), each.id


def undrop(call: Call[UndropBody]) -> EntityView:
    """Bring a table or view back, with its id, its grants and its policies."""
    given, catalog = call.given, call.names["catalog"]
    to = None if given.to is None else full_name(catalog, given.to)
    number = None if given.id is None else int(given.id)
    request = UndropEntityRequest(full_name(catalog, given.name), to, number)
    return undrop_entity(call.app, request)
