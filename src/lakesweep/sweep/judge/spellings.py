"""Spellings that may mean the same key.

Clients change keys on the way to a store: they encode and decode percent signs, write a space
as `+`, collapse slashes, resolve `.` and `..`, or change the Unicode normal form. So a table may
name a file by another key than the store does. Comparing the loosest spellings of both can only
keep files; it never decides that a file is deleted, and never changes a key that is sent to a
store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from unicodedata import normalize
from urllib.parse import unquote_plus

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, hash128
from lakesweep.storage.address import identities

#: A key may be encoded more than once; no real one is encoded this often.
_ROUNDS = 8
_DOTS = r"(?:^|/)\.{1,2}(?:/|$)"
_STORE = r"^[^/]*://[^/]*"
#: What keys contain that have more spellings than one.
_SPELLED = rf"[%+]|[^\x00-\x7f]|{_DOTS}"
_DOTTED = re.compile(_DOTS)
_SLASHES = re.compile(r"//+")


@dataclass(frozen=True, slots=True)
class LooseKeys:
    """Keys in their loosest spelling, each with the row of the path that it is of.

    Nearly all paths have one. A path with `..` has one for each way in which clients resolve it.
    """

    rows: npt.NDArray[np.int64]
    keys: pa.Array

    @property
    def hashes(self) -> Hashes:
        """Equal for spellings of one key in any store."""
        return hash128(self.keys)

    def rows_where(self, matches: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
        """Which of `count` paths have a spelling that matches."""
        found = np.zeros(count, np.bool_)
        found[self.rows[matches]] = True
        return found


def loose_keys(paths: pa.Array) -> LooseKeys:
    """Keys without their store, in their loosest spellings."""
    keys = pc.replace_substring_regex(identities(paths), _STORE, "")
    is_spelled = pc.match_substring_regex(keys, _SPELLED)
    rows = np.arange(len(keys), dtype=np.int64)
    # Nearly all keys are plain, and stay in Arrow.
    plain = pc.replace_substring_regex(keys, r"//+", "/")
    if not pc.any(is_spelled).as_py():
        return LooseKeys(rows, plain)
    spelled = np.asarray(is_spelled)
    found = [
        (row, each)
        for row in np.flatnonzero(spelled).tolist()
        for each in sorted(_spellings(keys[row].as_py()))
    ]
    numbers = np.array([row for row, _ in found], np.int64)
    texts = pa.array([text for _, text in found], plain.type)
    kept = plain.filter(pc.invert(is_spelled))
    return LooseKeys(np.concatenate([rows[~spelled], numbers]), pa.concat_arrays([kept, texts]))


def loose_paths(paths: pa.Array) -> LooseKeys:
    """The same, with the store before each key."""
    loose = loose_keys(paths)
    stores = pc.replace_substring_regex(identities(paths), rf"({_STORE})?.*", r"\1")
    whole = pc.binary_join_element_wise(stores.take(pa.array(loose.rows)), loose.keys, "")
    return LooseKeys(loose.rows, whole)


def folder_spellings(folder: str) -> Iterator[str]:
    """An identity that ends in `/`, and the folders that clients may take it for."""
    yield folder
    store, _, rest = folder.rpartition("://")
    start = len(folder) - len(rest) + rest.index("/") if store else 0
    for key in sorted(_spellings(folder[start:])):
        if key != folder[start:]:
            yield folder[:start] + key


def _spellings(key: str) -> set[str]:
    """What a client may make of a key: it may resolve dots before or after it decodes."""
    decoded = _decoded(key)
    if not (_DOTTED.search(key) or _DOTTED.search(decoded)):
        return {_SLASHES.sub("/", decoded)}
    ways = (way(text) for text in (key, decoded) for way in (_as_path, _as_url))
    return {_as_path(_decoded(each)) for each in ways}


def _decoded(key: str) -> str:
    for _ in range(_ROUNDS):
        decoded = normalize("NFKC", unquote_plus(key, errors="replace"))
        if decoded == key:
            break
        key = decoded
    return key


def _as_path(key: str) -> str:
    """Dots resolved as in file names, where `a//b` is `a/b`."""
    return _as_url(_SLASHES.sub("/", key))


def _as_url(key: str) -> str:
    """Dots resolved as in URLs, where the empty name of `a//b` counts. None leads above `/`."""
    found: list[str] = []
    for name in key.removeprefix("/").split("/"):
        if name == "..":
            del found[-1:]
        elif name != ".":
            found.append(name)
    is_folder = key.rpartition("/")[2] in ("", ".", "..")
    if is_folder and (not found or found[-1]):
        found.append("")
    return "/" + "/".join(found)
