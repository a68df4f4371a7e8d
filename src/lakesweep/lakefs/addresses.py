"""Physical addresses: which key of the storage namespace they name, and which may be deleted.

Protection is generous and deletion strict. Every address that may name an object inside the
namespace protects it; only keys that the server itself generated may ever be deleted.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.columns import AddressType
from lakesweep.storage.address import StoreKind, folder_identity, identities, identity, parse

#: Where servers put objects, below the namespace.
DATA = "data/"
#: Where they put all else.
METADATA = "_lakefs/"

_SECURE_KEY = rf"^{DATA}(?s:.*)[^/]$"
_STEPS = r"(^|/)\.{1,2}(/|$)"

#: How addresses begin that servers with a disk of their own give out.
_LOCAL = "local://"
#: What servers have read in more than one way: once they took a `/` off, and folded double ones.
_ODD = r"[%?#]|^/|[^:/]//"

#: An xid: 12 bytes as 20 of these letters, the last of which holds only one bit.
_XID = r"(?:^|/)(?P<xid>[0-9a-v]{19}[0g])(?:,[^/]*)?$"
_XID_VALUES = np.zeros(256, np.uint8)
_XID_VALUES[np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)] = np.arange(32)
#: So many letters hold the seconds since 1970, which stand first.
_SECONDS_LETTERS = 7


@dataclass(frozen=True, slots=True)
class StorageNamespace:
    """Where a repository lies.

    `location` is the address that we read it by, as somebody wrote it. `aliases` are other
    addresses of the same folder, as the server's `local://` ones: without those, an address on the
    server's own disk cannot be told from one inside the namespace.
    """

    location: str
    aliases: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The address of the namespace, with a `/` at its end."""
        return self.location if self.location.endswith("/") else self.location + "/"

    def address(self, key: str) -> str:
        """The full address of a key below the namespace."""
        return self.folder + key

    def table(self, id_: str) -> str:
        """The address of the file of a range or a metarange."""
        return self.address(METADATA + id_)

    @property
    def _folders(self) -> tuple[str, ...]:
        """The beginnings of all that is inside, in the spelling that addresses are compared by."""
        aliases = (alias if alias.endswith("/") else alias + "/" for alias in self.aliases)
        own = folder_identity(self.location)
        local = (_LOCAL + own,) if self._is_local else ()
        return (own, *local, *(identity(alias) for alias in aliases))

    @property
    def _is_local(self) -> bool:
        return parse(self.location).kind is StoreKind.FILE

    def keys(self, addresses: pa.Array, types: pa.Array) -> pa.Array:
        """The key below the namespace that each address names; null where it names none.

        What is decoded or made simple on the way to a store has its simple form, so that both
        forms must be protected: see `protected`.
        """
        relative = pc.equal(types, AddressType.RELATIVE)
        if pc.all(relative, min_count=0).as_py():
            return addresses
        full = self._inside(addresses.filter(pc.invert(relative)))
        return pc.replace_with_mask(addresses, pc.invert(relative), full)

    def protected(self, addresses: pa.Array, types: pa.Array) -> pa.Array:
        """All keys below the namespace that addresses may name, none of them null.

        They may be more than the addresses: one with `%41` in it may mean that or `A`.
        """
        keys = self.keys(addresses, types).drop_null()
        odd = addresses.filter(_is_odd(addresses)).to_pylist()
        others = [key for each in odd for key in self._readings(each)]
        return pa.concat_arrays([keys, pa.array(others, keys.type)]) if others else keys

    def elsewhere(self, addresses: pa.Array) -> list[str]:
        """What else addresses outside the namespace may name.

        Decoded ones, and places on the disk of the server, which it spells in its own way.
        """
        odd = addresses.filter(_is_odd(addresses)).to_pylist()
        local = addresses.filter(pc.starts_with(addresses, _LOCAL)).to_pylist()
        found = {text for each in odd for text in _decoded(each)}
        return sorted(found | {path for each in (*local, *found) for path in self._on_disk(each)})

    def _on_disk(self, address: str) -> Iterator[str]:
        """Where the server may have what it calls so: by its full path, or below its root.

        Listings have the root in front of full paths too.
        """
        if not address.startswith(_LOCAL):
            return
        path = address.removeprefix(_LOCAL)
        if path.startswith("/"):
            yield path
        for alias in self.aliases:
            below = "/" + alias.removeprefix(_LOCAL).strip("/") + "/"
            if alias.startswith(_LOCAL) and self.folder.endswith(below):
                root = self.folder.removesuffix(below)
                yield f"{root}/{path.lstrip('/')}"
                if path.startswith(f"{root}/"):
                    yield path.removeprefix(root)

    def _inside(self, addresses: pa.Array) -> pa.Array:
        known = identities(addresses)
        keys = pa.nulls(len(known), known.type)
        for folder in self._folders:
            below = pc.if_else(
                pc.starts_with(known, folder), pc.utf8_slice_codeunits(known, len(folder)), None
            )
            keys = pc.coalesce(keys, below)
        self._refuse_unknown(known.filter(pc.is_null(keys)))
        return keys

    def _refuse_unknown(self, outside: pa.Array) -> None:
        """Whoever has a disk of his own may name the namespace in ways that nobody else knows."""
        if not self._is_local:
            return
        local = outside.filter(pc.starts_with(outside, _LOCAL))
        doubtful = local.filter(self._may_be_inside(local)) if self._knows_root else local
        if len(doubtful):
            raise IncompleteError(
                f"{doubtful[0].as_py()} may lie in {self.location} or not: it is an address on the"
                " disk of a server whose folder is not known",
                hint="set local_root to the folder that the server keeps its objects in, by the"
                " name that the server has for it; where it is mounted elsewhere here, make a link"
                " of that name",
            )

    @property
    def _knows_root(self) -> bool:
        return any(alias.startswith(f"{_LOCAL}/") for alias in self.aliases)

    def _may_be_inside(self, local: pa.Array) -> pa.Array:
        """Which addresses end as those of the namespace do, in some other folder of a server."""
        found = pa.repeat(pa.scalar(value=False), len(local))
        for alias in self.aliases:
            told = alias.removeprefix(_LOCAL).strip("/")
            if alias.startswith(_LOCAL) and told:
                found = pc.or_(found, pc.match_substring(local, f"/{told}/"))
        return found

    def _readings(self, address: str) -> Sequence[str]:
        """What else an odd address may name inside the namespace."""
        texts = _decoded(address)
        found = self._inside(pa.array(sorted(text for text in texts if "://" in text), pa.string()))
        relative = (text for text in texts if "://" not in text)
        return [key for key in (*found.drop_null().to_pylist(), *relative) if key]


def _is_odd(addresses: pa.Array) -> pa.Array:
    """Which addresses may be read in more than one way."""
    return pc.or_(
        pc.match_substring_regex(addresses, _ODD), pc.match_substring_regex(addresses, _STEPS)
    )


def _decoded(address: str) -> set[str]:
    """What an odd address may mean, after decoding it and resolving its steps."""
    plain = re.split(r"[?#]", address, maxsplit=1)[0]
    texts = {plain, unquote(plain), unquote(address)}
    return texts | {_simplified(text) for text in texts}


def _simplified(address: str) -> str:
    scheme, mark, path = address.rpartition("://")
    simple = posixpath.normpath(path)
    return scheme + mark + simple if mark else simple.lstrip("/")


def may_be_deleted(addresses: pa.Array, types: pa.Array) -> pa.Array:
    """Which addresses are of objects that the repository itself wrote, and may ever go.

    Relative ones below `data/`. Never what was imported or lies at the root, as early versions
    wrote it, nor anything whose name could lead elsewhere.
    """
    named = pc.match_substring_regex(addresses, _SECURE_KEY)
    steps = pc.match_substring_regex(addresses, _STEPS)
    return pc.and_(pc.and_not(named, steps), pc.equal(types, AddressType.RELATIVE))


def creation_times(addresses: pa.Array) -> pa.Array:
    """When the server gave out each address, by the clock in its name; null where it has none."""
    names = pc.struct_field(pc.extract_regex(addresses, pattern=_XID), "xid")
    letters = np.frombuffer(pc.fill_null(names, "0" * 20).cast(pa.binary(20)).buffers()[1], "u1")
    values = _XID_VALUES[letters.reshape(-1, 20)[: len(names), :_SECONDS_LETTERS]].astype(np.int64)
    bits = np.zeros(len(names), np.int64)
    for column in values.T:
        bits = bits << 5 | column
    seconds = bits >> (5 * _SECONDS_LETTERS - 32)
    moments = pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC"))
    return pc.if_else(pc.is_valid(names), moments, None)
