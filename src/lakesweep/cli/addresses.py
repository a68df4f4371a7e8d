"""Addresses as people write them on a command line."""

from __future__ import annotations

from pathlib import Path


def absolute(uri: str) -> str:
    """An address; a local file or folder may be named as in any other command."""
    if ":" in uri or uri.startswith("/"):
        return uri
    slash = "/" if uri.endswith("/") else ""
    return str(Path(uri).absolute()) + slash
