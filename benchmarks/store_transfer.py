"""Exports and imports on SQLite against a bare copy of rows: `python -m benchmarks.store_transfer`.

The realm has an index with a link to each object, and nothing else. The bare copy selects all rows
of one file and inserts them into another, in Python, without looking at them. An import reads its
file twice, writes the rows, and reads them again. The peak memory is that of a process of its own,
at two sizes.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from lakesweep.store import LINKS, NO_INDEX, Attempt, Commit, IndexRoot, Store, key, seal
from lakesweep.store.transfer import ExportKind, content_hash, export_realm, import_realm, new_file

SIZES = (10_000, 200_000)
_AT_ONCE = 5_000
_COLUMNS = "realm, id, part, type, created_at, token, value"
_MARKS = "?, ?, ?, ?, ?, ?, ?"


class Recipe(msgspec.Struct, frozen=True):
    text: str


class Cookbook(Commit, frozen=True, kw_only=True):
    recipes: IndexRoot = NO_INDEX


TYPES: dict[str, type[msgspec.Struct]] = {"recipe": Recipe, "cookbook": Cookbook}


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _fill(path: Path, count: int) -> None:
    Store.create_tables(_url(path))
    with Store.open(_url(path), types=TYPES) as store:
        realm = store.create_realm("acme")
        for start in range(0, count, _AT_ONCE):

            def add(attempt: Attempt[Cookbook], start: int = start) -> Cookbook:
                recipes = attempt.index((attempt.head or Cookbook()).recipes, LINKS)
                for number in range(start, start + _AT_ONCE):
                    recipe = attempt.write(Recipe(f"recipe {number}: water, salt; " * 8))
                    recipes.put(key(f"{number:09d}"), recipe)
                return Cookbook(recipes=seal(recipes))

            realm.commit("root", add, Cookbook)


def _copy_rows(source: Path, target: Path) -> int:
    """All rows of one file into another, as fast as the driver can."""
    Store.create_tables(_url(target))
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        rows = old.execute(f"SELECT {_COLUMNS} FROM lakesweep_objects")
        count = 0
        while page := rows.fetchmany(1_000):
            new.executemany(f"INSERT INTO lakesweep_objects ({_COLUMNS}) VALUES ({_MARKS})", page)
            count += len(page)
        new.commit()
        return count


def _export(source: Path, file: Path, kind: ExportKind) -> int:
    with Store.open(_url(source), cache_bytes=0) as store, new_file(file, replace=True) as new:
        return export_realm(store, "acme", new.write, kind=kind).end.items


def _import(file: Path, target: Path) -> int:
    Store.create_tables(_url(target))
    with Store.open(_url(target), cache_bytes=0) as store:
        return import_realm(store, file).end.items


def _measure(title: str, action: Callable[[], int], bare: float | None) -> float:
    start = time.process_time()
    count = action()
    rate = count / (time.process_time() - start)
    ratio = f"{rate / bare:8.2f}" if bare else f"{1:8.2f}"
    print(f"{title:34}{rate:>15,.0f}{ratio}")
    return rate


def _compare(folder: Path, count: int) -> None:
    source = folder / "source.db"
    _fill(source, count)
    print(f"{count:,} objects\n{'':34}{'objects/CPU s':>15}{'to bare':>8}")
    bare = _measure("bare copy of rows", lambda: _copy_rows(source, folder / "bare.db"), None)
    hashes = []
    for kind in ExportKind:
        for suffix in ("ndjson", "ndjson.gz"):
            file, target = folder / f"{kind}.{suffix}", folder / f"{kind}-{suffix}.db"
            name = f"{kind}, {suffix}"
            _measure(f"export {name}", lambda f=file, k=kind: _export(source, f, k), bare)  # type: ignore[misc]
            _measure(f"import {name}", lambda f=file, t=target: _import(f, t), bare)  # type: ignore[misc]
            with Store.open(_url(target)) as store:
                hashes.append(content_hash(store.realm("acme")))
    assert len(set(hashes)) == 1, hashes


def _peak_bytes() -> int:
    """The peak of this program; what getrusage says may be that of whoever started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _in_new_process(action: str, *paths: Path) -> float:
    """The peak memory of an export or an import, the program itself included."""
    command = [sys.executable, "-m", "benchmarks.store_transfer", f"--{action}", *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def _compare_memory() -> None:
    print(f"\npeak memory, MB{'':19}" + "".join(f"{size:>12,}" for size in SIZES))
    peaks: dict[str, list[float]] = {"export": [], "import": []}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _fill(folder / "source.db", size)
            peaks["export"].append(
                _in_new_process("export", folder / "source.db", folder / "export.ndjson")
            )
            peaks["import"].append(
                _in_new_process("import", folder / "export.ndjson", folder / "target.db")
            )
    for action, values in peaks.items():
        growth = (values[1] - values[0]) / (SIZES[1] - SIZES[0])
        figures = "".join(f"{value / 1e6:>12.1f}" for value in values)
        print(f"{action:34}{figures}   {growth:.0f} bytes an object more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--export", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--import", dest="imported", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help="measure memory only")
    arguments = parser.parse_args()
    if arguments.export:
        source, file = arguments.export
        _export(source, file, ExportKind.LIVE)
        print(_peak_bytes())
    elif arguments.imported:
        file, target = arguments.imported
        _import(file, target)
        print(_peak_bytes())
    else:
        if not arguments.memory:
            with tempfile.TemporaryDirectory() as folder:
                _compare(Path(folder), SIZES[1])
        _compare_memory()


if __name__ == "__main__":
    main()
