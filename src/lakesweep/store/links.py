"""What leads from one object to others, so that anybody can follow it.

Links and indexes are extensions of msgpack, not plain numbers and bytes:

    1   Link        the id, 8 bytes, big-endian
    2   IndexRoot   one byte for what its values are, then the bytes of the index

So everything that an object leads to is found in its bytes alone. Nobody needs to know its type,
and no object of a type from the future is ever taken for one that leads nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from lakesweep.errors import DamagedRowError

_LINK = 1
_INDEX = 2
_LARGEST = 2**63 - 1


class Link(int):
    """The id of another object, which this one needs."""

    __slots__ = ()


class Values(IntEnum):
    """What the values of an index are, to whoever looks for links."""

    OPAQUE = 0
    LINKS = 1
    PACKED = 2


class IndexRoot(bytes):
    """An index as an object embeds it: what its values are, then its bytes; nothing if empty."""

    __slots__ = ()

    @classmethod
    def of(cls, data: bytes, values: Values) -> IndexRoot:
        """The root of an index of these bytes."""
        return cls(bytes((values,)) + data)

    @property
    def values(self) -> Values:
        return Values(self[0]) if self else Values.OPAQUE

    @property
    def data(self) -> bytes:
        return self[1:]


#: What a field that holds an index begins with.
NO_INDEX = IndexRoot()


@dataclass(frozen=True, slots=True)
class Links:
    """All that one object leads to, in the order of its bytes."""

    objects: tuple[Link, ...]
    indexes: tuple[IndexRoot, ...]


_NO_LINKS = Links((), ())


def find_links(payload: bytes) -> Links:
    """What the bytes of an object, or of one packed value of an index, lead to."""
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
    """The extension that stands for a link or an index; TypeError for anything else."""
    if isinstance(value, Link):
        if not 0 <= value <= _LARGEST:
            raise ValueError(f"{int(value)} is no id of an object")
        return Ext(_LINK, int(value).to_bytes(8, "big"))
    if isinstance(value, IndexRoot):
        return Ext(_INDEX, bytes(value))
    raise TypeError(f"{type(value).__qualname__} cannot be stored")


def unpack(code: int, data: memoryview) -> Link | IndexRoot:
    """The link or the index of an extension."""
    if code == _LINK and len(data) == 8:
        return Link(int.from_bytes(data, "big"))
    if code == _INDEX and (not data or data[0] in _KNOWN_VALUES):
        return IndexRoot(data)
    raise DamagedRowError(
        f"there is no extension {code} of {len(data)} bytes", hint="use a newer lakesweep"
    )


_KNOWN_VALUES = frozenset(Values)
