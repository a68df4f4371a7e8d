"""The tables that Java wrote, with Java's own answers.

`data/paimon.tar.xz` holds two warehouses with their tables, files planted among them that nothing
references, and in `expected` what Java says of each table. Of two things that no archive needs to
keep, `expected/_layout.json` tells which they were: the files that are young, all others being ten
days old, and the folders that are empty.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "data" / "paimon.tar.xz"
_OLD_SECONDS = 10 * 24 * 3600

#: How Java names the kinds that the command line names otherwise.
_KINDS = {"snapshot-json": "snapshot", "tag-json": "tag", "changelog-json": "changelog-meta"}


@cache
def _layout() -> Mapping[str, Any]:
    with tarfile.open(ARCHIVE) as archive:
        member = archive.next()  # the first, so that the rest need not be inflated
        assert member is not None
        file = archive.extractfile(member)
        assert file is not None
        return dict(json.loads(file.read()))


#: The names of all tables, such as `shop.append_dt`.
TABLES = tuple(_layout())


@dataclass(frozen=True)
class JavaTable:
    """One table, and what Java answers for it. Paths in answers are below the table's folder."""

    name: str
    folder: Path
    expected: Path

    @property
    def short_name(self) -> str:
        return self.name.partition(".")[2]

    @cached_property
    def references(self) -> Mapping[str, Any]:
        return dict(self.answer("references"))

    def answer(self, what: str) -> Any:
        """What Java says of `references`, `orphans`, `expire_snapshots`, `partitions`, `system`."""
        return json.loads((self.expected / f"{self.short_name}.{what}.json").read_text())

    def referenced(self) -> set[tuple[str, str]]:
        """(kind, path) of everything that the table references, hints among it."""
        named = self.references["referenced"].items()
        kinds = ((_KINDS.get(kind, kind.partition(":")[0]), paths) for kind, paths in named)
        hints = {("hint", path) for path in self.references["hints"]}
        return {(kind, path) for kind, paths in kinds for path in paths} | hints

    def missing(self) -> set[str]:
        """What is referenced and no longer there, as is normal."""
        return set(self.references["referenced_but_missing"])

    def live(self) -> Mapping[str, set[str]]:
        """The live files of each `branch:snapshot-N` and `branch:tag-NAME`."""
        return {owner: set(paths) for owner, paths in self.references["live"].items()}

    def stored(self) -> set[str]:
        """All files that are in the folder now."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)) for path in files}

    def copy_to(self, folder: Path) -> JavaTable:
        """The same table in a folder of its own, with the same times and empty folders."""
        target = folder / f"{self.name.partition('.')[0]}.db" / self.short_name
        shutil.copytree(self.folder, target)
        return JavaTable(self.name, target, self.expected)


@dataclass(frozen=True)
class JavaWarehouses:
    """The unpacked tables. They are shared by tests: whoever changes one takes a copy."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> JavaWarehouses:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        found = cls(folder)
        now = folder.stat().st_ctime
        for name, layout in _layout().items():
            _restore(found.table(name).folder, layout, now)
        return found

    def table(self, name: str) -> JavaTable:
        """A table by its name, with or without that of its database."""
        full = next(each for each in TABLES if name in (each, each.partition(".")[2]))
        database, _, short = full.partition(".")
        return JavaTable(full, self.warehouse / f"{database}.db" / short, self.folder / "expected")

    @property
    def warehouse(self) -> Path:
        """The folder of the databases."""
        return self.folder / "warehouse"


def _restore(table: Path, layout: Mapping[str, Any], now: float) -> None:
    for name in layout["empty_directories"]:
        (table / name).mkdir(parents=True, exist_ok=True)
    young = set(layout["young"])
    for path in table.rglob("*"):
        if path.is_file():
            time = now if str(path.relative_to(table)) in young else now - _OLD_SECONDS
            os.utime(path, (time, time))
