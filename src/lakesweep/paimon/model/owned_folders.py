"""The folders in which a table may delete files: its own, and its external roots.

Everyone who can write to a table decides what its metadata says. So a path is deleted only if
it lies where this table keeps files, links resolved. Metadata that names anything else is
damaged or forged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, DeniedError
from lakesweep.paimon.model.external_paths import real_folder
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import Address, parse
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.object_store import StoreOpener

#: Folders of a table whose files no expiry and no clean-up of orphans deletes as garbage.
_KEPT = ("schema", "snapshot", "changelog", "tag", "consumer", "branch", "service", JOURNAL_FOLDER)


class OwnedFolders:
    """The folders of one table."""

    def __init__(self, table: PaimonTable) -> None:
        self._table = table
        self._own = real_folder(table.address.path)
        self._external = {root: real_folder(root) for root in table.external_roots}
        self._checked: set[str] = set()

    def check(self, names: pa.Array) -> None:
        """DamagedError if a file lies elsewhere; `names` are identities without links."""
        rest = names.filter(pc.invert(self._is_own(names)))
        for root, place in self._external.items():
            is_here = pc.starts_with(rest, place)
            if pc.any(is_here).as_py():
                self._check_root(root)
            rest = rest.filter(pc.invert(is_here))
        for name in rest[:1].to_pylist():
            raise DamagedError(
                name,
                f"{self._table.address.path} names it, but it is not among the files of that table",
                hint="nothing was deleted; find out who wrote to the table",
            )

    def _is_own(self, names: pa.Array) -> pa.Array:
        own = pc.starts_with(names, self._own)
        for folder in _KEPT:
            own = pc.and_not(own, pc.starts_with(names, f"{self._own}{folder}/"))
        return own

    def _check_root(self, root: str) -> None:
        """A schema may name any folder, but not one inside another table, which owns its files."""
        if root not in self._checked:
            check_external_root(self._table, root, {self._own})
            self._checked.add(root)


def check_external_root(table: PaimonTable, root: str, known: Collection[str]) -> None:
    """DamagedError if an external root is in the folder of a table that is not a known one.

    `known` are identities without links: of tables whose files are compared with those in the root.
    """
    other = find_table_around(table.stores, root)
    if other is not None and real_folder(other) not in known:
        raise DamagedError(
            table.address.path,
            f"has the external path {root}, which is in the folder of the table {other}",
            hint="give it an external path of its own with ALTER TABLE",
        )


def find_table_around(stores: StoreOpener, folder: str) -> str | None:
    """The innermost table whose folder this is, or lies in."""
    for around in _upwards(parse(folder)):
        # Without the right to list it, the folder is not one of a table that we clean.
        with suppress(DeniedError):
            schemas = list_level(stores, around.child(f"{around.folder}schema/")).files
            if any(name.startswith("schema-") for name in schemas):
                return around.path
    return None


def _upwards(folder: Address) -> Iterator[Address]:
    """A folder and all folders around it, the innermost first."""
    key = folder.folder
    yield folder.child(key)
    while key:
        key = key.rstrip("/").rpartition("/")[0]
        key = f"{key}/" if key else ""
        yield folder.child(key)
