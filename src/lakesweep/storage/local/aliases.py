"""The many names of one local file.

A folder can be reached through a link, through `//` or through `..`. Names are compared as written
everywhere else; here they are resolved, for one purpose only: to see that a file which is to be
spared is one that is about to go under another name. Resolving may only ever spare.
"""

from __future__ import annotations

import os
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc


def resolve(identities: pa.Array) -> pa.Array:
    """Identities, those of local files with all links and detours in their folders resolved."""
    is_local = pc.starts_with(identities, "/")
    if not pc.any(is_local).as_py():
        return identities
    return pa.array(map(resolve_one, identities.to_pylist()), pa.string())


def resolve_one(identity: str) -> str:
    """The same for one identity; a folder's ends in `/` and stays so."""
    if not identity.startswith("/"):
        return identity
    folder, _, name = identity.rpartition("/")
    real = _real_folder(folder or "/")
    return f"{real.rstrip('/')}/{name}"


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
