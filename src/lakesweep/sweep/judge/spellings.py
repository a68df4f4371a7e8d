"""Spellings that may mean the same key.

Clients change keys on the way to a store: they encode and decode percent signs, write a space
as `+`, collapse slashes, or change the Unicode normal form. So a table may name a file by
another key than the store does. Comparing the loosest spelling of both can only keep files; it
never decides that a file is deleted, and never changes a key that is sent to a store.
"""

from __future__ import annotations

from unicodedata import normalize
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, hash128
from lakesweep.storage.address import identities

#: A key may be encoded more than once; no real one is encoded this often.
_ROUNDS = 8
#: Characters of keys that have more than one spelling.
_SPELLED = r"[%+]|[^\x00-\x7f]"


def loose_hashes(paths: pa.Array) -> Hashes:
    """Hashes of loose keys: equal for all spellings of one key in any store."""
    return hash128(loose_keys(paths))


def loose_keys(paths: pa.Array) -> pa.Array:
    """Keys without their store, in their loosest spelling."""
    keys = pc.replace_substring_regex(identities(paths), r"^[^/]*://[^/]*", "")
    spelled = pc.match_substring_regex(keys, _SPELLED)
    # Nearly all keys are plain, and stay in Arrow.
    if pc.any(spelled).as_py():
        loose = pa.array(map(_loosest, keys.filter(spelled).to_pylist()), keys.type)
        keys = pc.replace_with_mask(keys, spelled, loose)
    return pc.replace_substring_regex(keys, r"//+", "/")


def _loosest(key: str) -> str:
    for _ in range(_ROUNDS):
        decoded = normalize("NFKC", unquote_plus(key, errors="replace"))
        if decoded == key:
            break
        key = decoded
    return key
