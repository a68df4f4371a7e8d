"""Links from one object to others, as msgpack extensions.

    1   Link        the id, 8 bytes, big-endian
    2   IndexRoot   one byte for the kind of its values, then the bytes of the index

Because links are extensions rather than plain numbers and bytes, they can be found in the bytes of
an object alone, without knowing its type. An object of a future type is never mistaken for one
without links.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from lakesweep.errors import DamagedRowError
from lakesweep.store.backends.rows import EVERY_ID

_LINK = 1
_INDEX = 2


class Link(int):
    """The id of another object, which this one needs."""

    __slots__ = ()


class ValueKind(IntEnum):
    """The kind of values in an index, for finding links."""

    OPAQUE = 0
    LINKS = 1
    PACKED = 2


class IndexRoot(bytes):
    """An index as an object embeds it: the kind of its values, then its bytes; empty if none."""

    __slots__ = ()

    @classmethod
    def of(cls, data: bytes, values: ValueKind) -> IndexRoot:
        """The root of an index with these bytes."""
        return cls(bytes((values,)) + data)

    @property
    def values(self) -> ValueKind:
        return ValueKind(self[0]) if self else ValueKind.OPAQUE

    @property
    def data(self) -> bytes:
        return self[1:]


#: The initial value of a field that holds an index.
NO_INDEX = IndexRoot()


@dataclass(frozen=True, slots=True)
class Links:
    """All links of one object, in the order of its bytes."""

    objects: tuple[Link, ...]
    indexes: tuple[IndexRoot, ...]


_NO_LINKS = Links((), ())


def find_links(payload: bytes) -> Links:
    """The links in the bytes of an object, or of one packed value of an index."""
    objects: list[Link] = []
    indexes: list[IndexRoot] = []

    def note(code: int, data: memoryview) -> None:
        found = unpack(code, data)
        if isinstance(found, Link):
            objects.append(found)
        else:
            indexes.append(found)

    try:
        msgspec.msgpack.decode(payload, ext_hook=note)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRowError(f"not msgpack: {error}") from error
    return Links(tuple(objects), tuple(indexes)) if objects or indexes else _NO_LINKS


def pack(value: Any) -> Ext:
    """The extension for a link or an index; TypeError for anything else."""
    if isinstance(value, Link):
        if not 0 <= value <= EVERY_ID.last:
            raise ValueError(f"{int(value)} is not an object id")
        return Ext(_LINK, int(value).to_bytes(8, "big"))
    if isinstance(value, IndexRoot):
        return Ext(_INDEX, bytes(value))
    raise TypeError(f"{type(value).__qualname__} cannot be stored")


def unpack(code: int, data: memoryview) -> Link | IndexRoot:
    """The link or index in an extension."""
    if code == _LINK and len(data) == 8:
        return Link(int.from_bytes(data, "big"))
    if code == _INDEX and (not data or data[0] in _KNOWN_VALUES):
        return IndexRoot(data)
    raise DamagedRowError(
        f"unknown extension {code} of {len(data)} bytes", hint="upgrade Lakesweep"
    )


_KNOWN_VALUES = frozenset(ValueKind)
