"""Tables that pypaimon has just written consist of what we reach, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakesweep.paimon.model.file_kinds import kinds_of_external_files, kinds_of_files
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import identity
from lakesweep.storage.stores import Stores
from tests.command import Lakesweep
from tests.readers.readers import pypaimon_tables


def stored(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def test_every_file_of_fresh_tables_is_reached_and_known_by_its_name(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    warehouse, outside = tmp_path / "warehouse", tmp_path / "outside"
    found: set[str] = set()
    for name in pypaimon_tables(warehouse, outside):
        folder = warehouse / "db.db" / name
        lines = lakesweep("paimon", "files", str(folder)).lines
        kinds = {identity(line["path"]): line["kind"] for line in lines}
        assert (name, known_kinds(folder, outside, list(kinds))) == (name, kinds)
        found |= kinds.keys()
    assert found == stored(warehouse) | stored(outside)


def known_kinds(folder: Path, outside: Path, paths: list[str]) -> dict[str, str | None]:
    """What the names of files say of them; roots outside are folders of one letter."""
    layout = PaimonTable.open(Stores(), str(folder)).layout
    inside = [path for path in paths if path.startswith(f"{folder}/")]
    data = [path for path in paths if path.startswith((f"{outside}/a/", f"{outside}/b/"))]
    indexes = [path for path in paths if path.startswith(f"{outside}/i/")]
    below = pa.array([path.removeprefix(f"{folder}/") for path in inside], pa.string())
    beyond = pa.array([path.removeprefix(str(outside))[3:] for path in data], pa.string())
    known = dict(zip(inside, kinds_of_files(layout, below).to_pylist(), strict=True))
    known |= zip(data, kinds_of_external_files(layout, beyond).to_pylist(), strict=True)
    assert len(known) + len(indexes) == len(paths)
    return known | dict.fromkeys(indexes, "index")
