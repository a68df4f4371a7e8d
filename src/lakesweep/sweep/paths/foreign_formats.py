"""Find folders of tables that no root reads, by the files that their format creates.

Data files of Delta, Hudi, Paimon or a plain dataset are named much like those of Iceberg. What
distinguishes them is beside them, so every listed path is checked once. A sign of another format
can only keep files.

Metadata files of Iceberg are signs of a table too: perhaps one whose catalog is not a root.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.iceberg.metadata import guess_location
from lakesweep.marks.covers import collapse
from lakesweep.sweep.paths.file_names import FileNames
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder

#: The number of folders kept per format; beyond that, wider ones.
MOST_FOLDERS = 100_000


class ForeignFormat(StrEnum):
    """Formats that keep all files of a folder that the roots of a run do not read."""

    ICEBERG = "Iceberg table"
    DELTA = "Delta table"
    HUDI = "Hudi table"
    PAIMON = "Paimon table"
    LAKEFS = "lakeFS repository"
    DATASET = "dataset"


class FormatSign(msgspec.Struct, frozen=True, order=True):
    """A folder with a file that matches a pattern; `file` is the last such file by name, if asked.

    One file is enough to tell the table that its folder belongs to.
    """

    pattern: str
    folder: str
    file: str = ""


class ForeignFolder(msgspec.Struct, frozen=True, omit_defaults=True):
    """A folder, and the format of everything in it; of an Iceberg table also a metadata file."""

    format: ForeignFormat
    folder: str
    file: str = ""


# Each starts with the folder that the file is a sign for.
_PATTERNS = {
    "delta": r"(?s)^(?P<folder>.*?/)_delta_log/",
    "hudi": r"(?s)^(?P<folder>.*?/)\.hoodie/",
    "lakefs": r"(?s)^(?P<folder>.*?/)_lakefs/",
    "snapshot": r"(?s)^(?P<folder>.*/)snapshot/snapshot-\d+$",
    "schema": r"(?s)^(?P<folder>.*/)schema/schema-\d+$",
    "done": r"(?s)^(?P<folder>.*/)(?:_SUCCESS|_committed_\d+)$",
}
_ICEBERG = "iceberg"
_METADATA = r"\.metadata\.json(\.gz)?$"
_ANY = (
    r"/(_delta_log|\.hoodie|_lakefs)/|/(_SUCCESS|_committed_\d+|(snapshot|schema)-\d+)$|"
    + _METADATA
)
_FOLDER = r"(?s)^(?P<folder>.*/)[^/]*$"

#: A branch of a Paimon table has the same files as a table.
_BRANCH = re.compile(r"(?<=/)branch/branch-[^/]+/\Z")

#: All signs that a folder must have to be of a format.
_FORMATS = {
    ForeignFormat.DELTA: ("delta",),
    ForeignFormat.HUDI: ("hudi",),
    ForeignFormat.PAIMON: ("snapshot", "schema"),
    ForeignFormat.LAKEFS: ("lakefs",),
    ForeignFormat.DATASET: ("done",),
}

#: The formats that a root can read.
TABLES = frozenset({ForeignFormat.ICEBERG, ForeignFormat.PAIMON})


class FormatSigns:
    """The signs that were seen in some paths."""

    def __init__(self) -> None:
        self._folders: defaultdict[str, set[str]] = defaultdict(set)
        self._metadata: dict[str, str] = {}

    def add(self, paths: pa.Array) -> None:
        """Check paths as they were listed."""
        odd = FileNames(paths).odd_paths()
        near = odd.filter(pc.match_substring_regex(odd, _ANY))
        for pattern, text in _PATTERNS.items() if len(near) else ():
            found = pc.struct_field(pc.extract_regex(near, text), "folder")
            self._folders[pattern].update(found.drop_null().unique().to_pylist())
        self._add_metadata(near)

    def _add_metadata(self, near: pa.Array) -> None:
        files = near.filter(pc.match_substring_regex(near, _METADATA))
        if not len(files):
            return
        folders = pc.struct_field(pc.extract_regex(files, _FOLDER), "folder")
        last = pa.table({"folder": folders, "file": files}).group_by("folder")
        for row in last.aggregate([("file", "max")]).to_pylist():
            known = self._metadata.get(row["folder"], "")
            self._metadata[row["folder"]] = max(known, row["file_max"])

    def found(self) -> Iterator[FormatSign]:
        """Each of them once."""
        for pattern, folders in self._folders.items():
            yield from (FormatSign(pattern, folder) for folder in sorted(folders))
        yield from (FormatSign(_ICEBERG, *each) for each in sorted(self._metadata.items()))


def outside_used(used: Iterable[str], found: Iterable[ForeignFolder]) -> Iterator[ForeignFolder]:
    """A dataset that overlaps a table's folder is not one: it was adopted, or left by an engine.

    Tables of other formats are not affected.
    """
    known = sorted(map(claimed_folder, used))
    around = FolderMap((folder, "") for folder in known)
    for each in found:
        folder = claimed_folder(each.folder)
        place = bisect_left(known, folder)
        holds = place < len(known) and known[place].startswith(folder)
        lies = around.find(pa.array([folder]))[0] >= 0
        if each.format is not ForeignFormat.DATASET or not (holds or lies):
            yield each


def without_read(tables: Iterable[str], found: Iterable[ForeignFolder]) -> Iterator[ForeignFolder]:
    """All except Paimon tables that are roots of the run, by folder, and their branches.

    Paimon can write metadata of Iceberg into its own tables.
    """
    known = frozenset(map(claimed_folder, tables))
    for each in found:
        folder = _BRANCH.sub("", claimed_folder(each.folder))
        if each.format not in TABLES or folder not in known:
            yield each


def foreign_folders(signs: Iterable[FormatSign]) -> tuple[ForeignFolder, ...]:
    """The folders that have all signs of a format, sorted by format.

    There are as many of `TABLES` as there are tables; some of them may be roots.
    """
    folders: defaultdict[str, set[str]] = defaultdict(set)
    metadata: dict[str, str] = {}
    for sign in signs:
        folders[sign.pattern].add(sign.folder)
        if sign.file:
            metadata[sign.folder] = max(metadata.get(sign.folder, ""), sign.file)
    iceberg = (
        ForeignFolder(ForeignFormat.ICEBERG, f"{guess_location(file)}/", file)
        for _, file in sorted(metadata.items())
    )
    others = (
        ForeignFolder(form, folder)
        for form, patterns in _FORMATS.items()
        for folder in _chosen(form, set.intersection(*(folders[pattern] for pattern in patterns)))
    )
    return (*iceberg, *others)


def _chosen(form: ForeignFormat, folders: set[str]) -> Iterable[str]:
    return sorted(folders) if form in TABLES else few_folders(folders)


def few_folders(folders: set[str]) -> Iterable[str]:
    """The folders, including nested ones: a root may read the outer one but not the inner."""
    return sorted(folders) if len(folders) <= MOST_FOLDERS else collapse(folders, MOST_FOLDERS)
