"""Table identifiers on the command line: a name in a catalog, or the address of a metadata file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakesweep.errors import MissingError, NotFoundError, UsageError
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_PART = re.compile(r'"([^"]+)"|([^."]+)')
_NAME = re.compile(r'("[^"]+"|[^."]+)(\.("[^"]+"|[^."]+)){2,}')
_METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$")


def is_address(ref: str) -> bool:
    """Whether a REF is an address rather than a name."""
    return ref.startswith(("/", "file:")) or "://" in ref


def split_identifier(ref: str) -> tuple[str, ...]:
    """The catalog and the parts of the name after it."""
    if not _NAME.fullmatch(ref):
        raise UsageError(
            f"{ref!r} is neither catalog.namespace.table nor an address",
            hint="write catalog.namespace.table, or the address of a .metadata.json file",
        )
    return tuple(quoted or plain for quoted, plain in _PART.findall(ref))


def metadata_path(stores: Stores, ref: str) -> str:
    """The metadata file of an address.

    For the folder of a table without a catalog, it is the version that its hint names.
    """
    if _METADATA_FILE.search(ref):
        return ref
    folder = ref.rstrip("/") + "/metadata/"
    address = parse(folder + "version-hint.text")
    try:
        version = stores.open(address).read(address.key).decode("ascii", "replace").strip()
    except MissingError as error:
        raise NotFoundError(
            f"{ref} is neither a metadata file nor the folder of a table with a version hint",
            hint="give the address of the table's newest .metadata.json",
        ) from error
    found = _version(stores, folder, version)
    if found is None:
        raise NotFoundError(f"{address.path} names version {version!r}, which has no metadata file")
    return _newest(stores, folder, found, int(version))


def _newest(stores: Stores, folder: str, found: str, version: int) -> str:
    """A hint may be stale: engines look for later versions, and so do we."""
    while (later := _version(stores, folder, str(version + 1))) is not None:
        found, version = later, version + 1
    return found


def _version(stores: Stores, folder: str, version: str) -> str | None:
    if not (version.isascii() and version.isdigit()):
        return None
    names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json")
    return next((folder + name for name in names if _exists(stores, folder + name)), None)


def _exists(stores: Stores, path: str) -> bool:
    address = parse(path)
    try:
        stores.open(address).head(address.key)
    except MissingError:
        return False
    return True
