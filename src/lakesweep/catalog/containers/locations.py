"""The location index: which entities have files at, below or above an address.

Locations are compared by identity, segment by segment: `s3a` equals `s3`, and `t1` does not
contain `t10`. A key is the segments followed by the entity's id, so everything below a
location is one range, and each location above it is one lookup.

Spellings that some engine or store takes for the same folder overlap, too: `a//b`, `a/./b`,
`a/x/../b`, `%61/b`, and on local disk links. So a location with such a spelling has two keys:
as written, and in plain form. Links are followed when a location is set; an entry whose link
was changed later may be stale, so what the index finds is checked against the entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

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
    if "\0" in address:
        raise UsageError(f"{address[:80]!r} contains a NUL character", hint="remove it")
    parse(address)


def location_parts(address: str) -> tuple[str, ...]:
    """What a location is compared by; UsageError if it is no address."""
    from lakesweep.storage.address import folder_identity

    check_address(address)
    return tuple(folder_identity(address)[:-1].split("/"))


def plain_parts(address: str) -> tuple[str, ...]:
    """What all spellings of a location have in common, where engines or stores unify them."""
    parts = location_parts(address)
    if parts[0] == "":
        return tuple(_resolve(unquote("/".join(parts))).split("/"))
    names: list[str] = []
    for name in unquote("/".join(parts[3:])).split("/"):
        match name:
            case "" | ".":
                continue
            case "..":
                names = names[:-1]
            case _:
                names.append(name)
    return (*parts[:3], *names)


def _resolve(path: str) -> str:
    """A local folder without links and dots, as far as it exists."""
    try:
        return str(Path(path).resolve())
    except (OSError, RuntimeError, ValueError):
        return path  # a loop of links, or a name that no file can have


def are_apart(one: str, other: str) -> bool:
    """Whether neither location contains the other, in any spelling."""
    return not any(
        parts(one)[: len(parts(other))] == parts(other)
        or parts(other)[: len(parts(one))] == parts(one)
        for parts in (location_parts, plain_parts)
    )


def location_keys(address: str, number: int) -> frozenset[bytes]:
    """The keys of an entity at a location; UsageError if that is too long."""
    try:
        return frozenset(key(*parts(address), number) for parts in (location_parts, plain_parts))
    except ValueError as error:
        raise UsageError(
            f"the location {address[:80]}… is too long", hint="use one of 1,900 bytes at most"
        ) from error


class Locations:
    """Reads a location index."""

    def __init__(self, index: ReadableIndex[bytes]) -> None:
        self._index = index

    def overlapping(self, address: str) -> Iterator[tuple[int, EntityType]]:
        """The entities at, above and below an address, each once, from the top down."""
        seen: set[int] = set()
        for parts in dict.fromkeys([location_parts(address), plain_parts(address)]):
            for number, kind in self._around(parts):
                if number not in seen:
                    seen.add(number)
                    yield number, kind

    def _around(self, parts: tuple[str, ...]) -> Iterator[tuple[int, EntityType]]:
        for depth in range(1, len(parts)):
            above = key(*parts[:depth])
            yield from self._entities(above + _FIRST_ID, above + _BEHIND_IDS)
        own = key(*parts)
        yield from self._entities(own, own + b"\xff")

    def _entities(self, start: bytes, stop: bytes) -> Iterator[tuple[int, EntityType]]:
        for found, kind in self._index.items(start, stop):
            yield int(decode(found)[-1]), EntityType(kind.decode())
