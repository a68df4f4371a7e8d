"""The location index: which entities have files at, below or above an address.

Locations are compared by identity, segment by segment: `s3a` equals `s3`, and `t1` does not
contain `t10`. A key is the segments followed by the entity's id, so everything below a
location is one range, and each location above it is one lookup.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.catalog.entities import Entity, EntityType, GenericTable, Namespace, Table, View
from lakesweep.errors import UsageError
from lakesweep.store import key
from lakesweep.store.index.index import ReadableIndex
from lakesweep.store.index.keys import decode

#: Ids are numbers that are not negative; the first byte of one says how long it is.
_FIRST_ID = key(0)
_BEHIND_IDS = b"\x29"


def location_of(entity: Entity) -> str | None:
    """Where an entity has its files, as it says or as its metadata file suggests."""
    if isinstance(entity, Table | View):
        from lakesweep.iceberg.metadata import guess_location

        return entity.location or guess_location(entity.metadata_location)
    if isinstance(entity, Namespace | GenericTable):
        return entity.location
    return None


def check_address(address: str) -> None:
    """UsageError unless this is an address of something stored."""
    from lakesweep.storage.address import parse

    try:
        address.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{address[:80]!r} is not Unicode text", hint="write it in UTF-8"
        ) from error
    parse(address)


def location_parts(address: str) -> tuple[str, ...]:
    """What a location is compared by; UsageError if it is no address."""
    from lakesweep.storage.address import folder_identity

    check_address(address)
    return tuple(folder_identity(address)[:-1].split("/"))


def location_key(address: str, number: int) -> bytes:
    """The key of an entity at a location; UsageError if that is too long."""
    try:
        return key(*location_parts(address), number)
    except ValueError as error:
        raise UsageError(
            f"the location {address[:80]}… is too long", hint="use one of 1,900 bytes at most"
        ) from error


class Locations:
    """Reads a location index."""

    def __init__(self, index: ReadableIndex[bytes]) -> None:
        self._index = index

    def overlapping(self, address: str) -> Iterator[tuple[int, EntityType]]:
        """The entities at, above and below an address, from the top down."""
        parts = location_parts(address)
        for depth in range(1, len(parts)):
            above = key(*parts[:depth])
            yield from self._entities(above + _FIRST_ID, above + _BEHIND_IDS)
        own = key(*parts)
        yield from self._entities(own, own + b"\xff")

    def _entities(self, start: bytes, stop: bytes) -> Iterator[tuple[int, EntityType]]:
        for found, kind in self._index.items(start, stop):
            yield int(decode(found)[-1]), EntityType(kind.decode())
