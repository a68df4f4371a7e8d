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

#: Where servers store objects, in the namespace.
DATA = "data/"
#: Where they store everything else.
METADATA = "_lakefs/"

_SECURE_KEY = rf"^{DATA}(?s:.*)[^/]$"
_STEPS = r"(^|/)\.{1,2}(/|$)"

#: The scheme of servers that store objects on their own disk.
_LOCAL = "local://"
#: Addresses that server versions read differently: some strip a `/` and collapse double ones.
_ODD = r"[%?#]|^/|[^:/]//"

#: An xid: 12 bytes as 20 of these letters, the last of which holds only one bit.
_XID = r"(?:^|/)(?P<xid>[0-9a-v]{19}[0g])(?:,[^/]*)?$"
_XID_VALUES = np.zeros(256, np.uint8)
_XID_VALUES[np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)] = np.arange(32)
#: How many letters encode the seconds since 1970, which come first.
_SECONDS_LETTERS = 7


@dataclass(frozen=True, slots=True)
class StorageNamespace:
    """Where a repository is stored.

    `location` is the address by which we read it, as configured. `aliases` are other addresses of
    the same folder, such as the server's `local://` ones: without them, an address on the server's
    own disk cannot be distinguished from one inside the namespace.
    """

    location: str
    aliases: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The address of the namespace, with a trailing `/`."""
        return self.location if self.location.endswith("/") else self.location + "/"

    def address(self, key: str) -> str:
        """The full address of a key in the namespace."""
        return self.folder + key

    def table(self, id_: str) -> str:
        """The address of a range or metarange file."""
        return self.address(METADATA + id_)

    @property
    def _folders(self) -> tuple[str, ...]:
        """The prefixes of everything inside, in the spelling in which addresses are compared."""
        aliases = (alias if alias.endswith("/") else alias + "/" for alias in self.aliases)
        own = folder_identity(self.location)
        local = (_LOCAL + own,) if self._is_local else ()
        return (own, *local, *(identity(alias) for alias in aliases))

    @property
    def _is_local(self) -> bool:
        return parse(self.location).kind is StoreKind.FILE

    def keys(self, addresses: pa.Array, types: pa.Array) -> pa.Array:
        """The key in the namespace that each address names; null if it names none.

        If an address is decoded or normalised on its way to a store, this is the normalised form;
        then both forms must be protected: see `protected`.
        """
        relative = pc.equal(types, AddressType.RELATIVE)
        if pc.all(relative, min_count=0).as_py():
            return addresses
        full = self._inside(addresses.filter(pc.invert(relative)))
        return pc.replace_with_mask(addresses, pc.invert(relative), full)

    def protected(self, addresses: pa.Array, types: pa.Array) -> pa.Array:
        """All keys in the namespace that addresses may name, none of them null.

        There may be more keys than addresses: one with `%41` may mean that or `A`.
        """
        keys = self.keys(addresses, types).drop_null()
        odd = addresses.filter(_is_odd(addresses)).to_pylist()
        others = [key for each in odd for key in self._readings(each)]
        return pa.concat_arrays([keys, pa.array(others, keys.type)]) if others else keys

    def elsewhere(self, addresses: pa.Array) -> list[str]:
        """What else addresses outside the namespace may name.

        These are decoded addresses, and paths on the disk of the server in its own spelling.
        """
        odd = addresses.filter(_is_odd(addresses)).to_pylist()
        local = addresses.filter(pc.starts_with(addresses, _LOCAL)).to_pylist()
        found = {text for each in odd for text in _decoded(each)}
        return sorted(found | {path for each in (*local, *found) for path in self._on_disk(each)})

    def _on_disk(self, address: str) -> Iterator[str]:
        """Where the server may store an address: at its full path, or below the server's root.

        Listings prefix full paths with the root too.
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
        """A server with a disk of its own may name the namespace in ways that only it knows."""
        if not self._is_local:
            return
        local = outside.filter(pc.starts_with(outside, _LOCAL))
        doubtful = local.filter(self._may_be_inside(local)) if self._knows_root else local
        if len(doubtful):
            raise IncompleteError(
                f"{doubtful[0].as_py()} may lie in {self.location} or not: it is on the disk of a"
                " server whose folder is unknown",
                hint="set local_root to the folder where the server stores its objects, as the"
                " server names it; if it is mounted elsewhere on this machine, create a symbolic"
                " link of that name",
            )

    @property
    def _knows_root(self) -> bool:
        return any(alias.startswith(f"{_LOCAL}/") for alias in self.aliases)

    def _may_be_inside(self, local: pa.Array) -> pa.Array:
        """Which addresses end like the namespace, in some other folder of a server."""
        found = pa.repeat(pa.scalar(value=False), len(local))
        for alias in self.aliases:
            told = alias.removeprefix(_LOCAL).strip("/")
            if alias.startswith(_LOCAL) and told:
                found = pc.or_(found, pc.match_substring(local, f"/{told}/"))
        return found

    def _readings(self, address: str) -> Sequence[str]:
        """What else an ambiguous address may name inside the namespace."""
        texts = _decoded(address)
        found = self._inside(pa.array(sorted(text for text in texts if "://" in text), pa.string()))
        relative = (text for text in texts if "://" not in text)
        return [key for key in (*found.drop_null().to_pylist(), *relative) if key]


def _is_odd(addresses: pa.Array) -> pa.Array:
    """Which addresses are ambiguous."""
    return pc.or_(
        pc.match_substring_regex(addresses, _ODD), pc.match_substring_regex(addresses, _STEPS)
    )


def _decoded(address: str) -> set[str]:
    """What an ambiguous address may mean once decoded and resolved."""
    plain = re.split(r"[?#]", address, maxsplit=1)[0]
    texts = {plain, unquote(plain), unquote(address)}
    return texts | {_simplified(text) for text in texts}


def _simplified(address: str) -> str:
    scheme, mark, path = address.rpartition("://")
    simple = posixpath.normpath(path)
    return scheme + mark + simple if mark else simple.lstrip("/")


def may_be_deleted(addresses: pa.Array, types: pa.Array) -> pa.Array:
    """Which addresses may ever be deleted: the repository itself wrote their objects.

    These are relative ones below `data/`. Never what was imported, or is at the root, where early
    versions wrote it, nor anything whose name could lead elsewhere.
    """
    named = pc.match_substring_regex(addresses, _SECURE_KEY)
    steps = pc.match_substring_regex(addresses, _STEPS)
    return pc.and_(pc.and_not(named, steps), pc.equal(types, AddressType.RELATIVE))


def creation_times(addresses: pa.Array) -> pa.Array:
    """When the server generated each address, by the time in its name; null if it has none."""
    names = pc.struct_field(pc.extract_regex(addresses, pattern=_XID), "xid")
    letters = np.frombuffer(pc.fill_null(names, "0" * 20).cast(pa.binary(20)).buffers()[1], "u1")
    values = _XID_VALUES[letters.reshape(-1, 20)[: len(names), :_SECONDS_LETTERS]].astype(np.int64)
    bits = np.zeros(len(names), np.int64)
    for column in values.T:
        bits = bits << 5 | column
    seconds = bits >> (5 * _SECONDS_LETTERS - 32)
    moments = pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC"))
    return pc.if_else(pc.is_valid(names), moments, None)
