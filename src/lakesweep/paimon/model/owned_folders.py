"""The folders in which a table may delete files: its own, and its external roots.

Everyone who can write to a table decides what its metadata says. So a path is deleted only if
it lies where this table keeps files, links resolved, and not in the folder of another table.
Metadata that names anything else is damaged or forged.

The external roots are named by the table itself, so they prove nothing: code that deletes files
in them also asks the configuration and all roots (`operations/tables/paimon_protection.py`).
"""

from __future__ import annotations

import re
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


#: How to recognise the folder of a table: a file of this name in this folder of it.
_TABLE_SIGNS = (
    ("schema/", re.compile(r"schema-\d+")),
    ("metadata/", re.compile(r".*\.metadata\.json(\.gz)?|.*\.gz\.metadata\.json")),
    ("_delta_log/", re.compile(".+")),
    (".hoodie/", re.compile(".+")),
)
_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")


class OwnedFolders:
    """The folders of one table."""

    def __init__(self, table: PaimonTable) -> None:
        self._table = table
        self._own = real_folder(table.address.path)
        self._external = {root: real_folder(root) for root in table.external_roots}
        self._around = TablesAround(table.stores)
        self._checked: set[str] = set()

    def check(self, names: pa.Array) -> None:
        """DamagedError if a file lies elsewhere; `names` are identities without links."""
        rest = names.filter(pc.invert(self._is_own(names)))
        for place in self._external.values():
            is_here = pc.starts_with(rest, place)
            self._check_folders(rest.filter(is_here))
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

    def _check_folders(self, names: pa.Array) -> None:
        """A schema may name any folder, but other tables own the files in theirs."""
        for folder in pc.unique(pc.replace_substring_regex(names, "[^/]*$", "")).to_pylist():
            if folder not in self._checked:
                _check_around(self._table, folder, {self._own}, self._around)
                self._checked.add(folder)


def check_external_root(table: PaimonTable, root: str, known: Collection[str]) -> None:
    """DamagedError if an external root is in the folder of a table that is not a known one.

    `known` are identities without links: of tables whose files are compared with those in the root.
    """
    _check_around(table, root, known, TablesAround(table.stores))


def _check_around(
    table: PaimonTable, folder: str, known: Collection[str], around: TablesAround
) -> None:
    other = around.find(folder)
    if other is not None and real_folder(other) not in known:
        raise DamagedError(
            table.address.path,
            f"has the external path {folder}, which is in the folder of the table {other}",
            hint="give it an external path of its own with ALTER TABLE",
        )


class TablesAround:
    """Finds the tables, of any format, whose folders other folders are or lie in."""

    def __init__(self, stores: StoreOpener) -> None:
        self._stores = stores
        self._tables: dict[str, bool] = {}

    def find(self, folder: str) -> str | None:
        """The innermost table around a folder."""
        return next((each.path for each in _upwards(parse(folder)) if self._is_table(each)), None)

    def _is_table(self, folder: Address) -> bool:
        if folder.path not in self._tables:
            self._tables[folder.path] = self._looks_like_table(folder)
        return self._tables[folder.path]

    def _looks_like_table(self, folder: Address) -> bool:
        if _BUCKET.fullmatch(folder.folder.rstrip("/").rpartition("/")[2]):
            return False
        # Without the right to list it, the folder is not one of a table that we clean.
        with suppress(DeniedError):
            for inner, name in _TABLE_SIGNS:
                files = list_level(self._stores, folder.child(f"{folder.folder}{inner}")).files
                if any(map(name.fullmatch, files)):
                    return True
        return False


def _upwards(folder: Address) -> Iterator[Address]:
    """A folder and all folders around it, the innermost first."""
    key = folder.folder
    yield folder.child(key)
    while key:
        key = key.rstrip("/").rpartition("/")[0]
        key = f"{key}/" if key else ""
        yield folder.child(key)
