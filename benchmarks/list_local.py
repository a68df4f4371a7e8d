"""Listing a local tree: ours against walks that keep nothing.

    python benchmarks/list_local.py                   # 200,000 files, a table
    python benchmarks/list_local.py --files 50000
    python benchmarks/list_local.py --json            # the same as one JSON document

The tree is made in a temporary folder, 500 files a folder, five folders deep, and read once before
the clock starts. The contenders take turns, so that a busy machine is busy for all of them; the
best of the rounds counts. A ratio above 1 is faster than the walk that it names.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lakesweep.storage.contract import pages_of
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores

FILES_IN_A_FOLDER = 500


@dataclass(frozen=True, slots=True)
class Best:
    """The least that a contender took in any round."""

    wall_seconds: float = float("inf")
    cpu_seconds: float = float("inf")

    def or_less(self, wall_seconds: float, cpu_seconds: float) -> Best:
        return Best(min(self.wall_seconds, wall_seconds), min(self.cpu_seconds, cpu_seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the listing of a local tree.")
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        make_tree(Path(folder), arguments.files)
        results = contest(folder, arguments.files, arguments.rounds)
    show = show_json if arguments.json else show_table
    show(arguments.files, results)


def make_tree(root: Path, files: int) -> None:
    for start in range(0, files, FILES_IN_A_FOLDER):
        number = start // FILES_IN_A_FOLDER
        folder = root / f"warehouse/db/t{number // 100}/data/part={number:05}"
        folder.mkdir(parents=True)
        for index in range(start, min(files, start + FILES_IN_A_FOLDER)):
            (folder / f"{index:08}-0a1b2c3d-aaaa-bbbb-cccc-0123456789ab.parquet").touch()


def contest(folder: str, files: int, rounds: int) -> dict[str, Best]:
    contenders: dict[str, Callable[[], int]] = {
        "scandir and stat": lambda: walk(folder, look=True),
        "scandir alone": lambda: walk(folder, look=False),
        "LocalStore": lambda: list_store(folder),
        "list_files": lambda: list_location(folder),
    }
    results = dict.fromkeys(contenders, Best())
    for number in range(-1, rounds):
        for name, action in contenders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            assert action() == files, name
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number >= 0:
                results[name] = results[name].or_less(wall, cpu)
    return results


def walk(folder: str, *, look: bool) -> int:
    """Count the files of a tree, looking at each of them or not."""
    waiting, count = [folder], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                if look:
                    entry.stat(follow_symlinks=False)
                count += 1
    return count


def list_store(folder: str) -> int:
    return sum(page.entries.num_rows for page in pages_of(LocalStore(folder), ""))


def list_location(folder: str) -> int:
    return sum(batch.num_rows for batch in list_files(Stores(), folder + "/"))


def ratios(results: dict[str, Best], name: str, walk: str) -> tuple[float, float]:
    ours, theirs = results[name], results[walk]
    return theirs.wall_seconds / ours.wall_seconds, theirs.cpu_seconds / ours.cpu_seconds


def show_table(files: int, results: dict[str, Best]) -> None:
    print(f"{files:,} files, wall / CPU{'files/s':>14}{'seconds':>15}", end="")
    print(f"{'to scandir+stat':>19}{'to scandir alone':>19}")
    for name, best in results.items():
        print(f"{name:24}{files / best.wall_seconds:>14,.0f}", end="")
        print(f"{best.wall_seconds:>9.2f} /{best.cpu_seconds:>5.2f}", end="")
        for other in ("scandir and stat", "scandir alone"):
            wall, cpu = ratios(results, name, other)
            print(f"{wall:>10.2f} /{cpu:>5.2f} x", end="")
        print()


def show_json(files: int, results: dict[str, Best]) -> None:
    rows = [
        {
            "contender": name,
            "wall_seconds": best.wall_seconds,
            "cpu_seconds": best.cpu_seconds,
            "to_scandir_and_stat": ratios(results, name, "scandir and stat")[0],
            "to_scandir_alone": ratios(results, name, "scandir alone")[0],
        }
        for name, best in results.items()
    ]
    print(json.dumps({"files": files, "contenders": rows}, indent=2))


if __name__ == "__main__":
    main()
