"""Paths that are relative to the location of their table, which format version 4 allows."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

#: What an absolute path begins with; a path without it may be relative.
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:"


def absolute_path(path: str, base: str | None) -> str:
    """A path as an address; `base` is None where the format knows no relative paths."""
    if base is None or re.match(_SCHEME, path):
        return path
    # A table in a local folder may write absolute paths without a scheme.
    is_absolute = path.startswith("/") and base.startswith("/")
    return path if is_absolute else f"{base}/{path}"


def absolute_paths(paths: pa.Array, base: str | None) -> pa.Array:
    """`absolute_path` over a column."""
    if base is None:
        return paths
    is_absolute = pc.match_substring_regex(paths, _SCHEME)
    if base.startswith("/"):
        is_absolute = pc.or_(is_absolute, pc.starts_with(paths, "/"))
    return pc.if_else(is_absolute, paths, pc.binary_join_element_wise(base, paths, "/"))
