"""Deletes that look first, and deletes that can be undone, against the bare calls of the system.

    python -m benchmarks.quarantine                 # 50,000 files in a local folder
    python -m benchmarks.quarantine --files 200000

Each contender gets a tree of its own, made before the clock starts. Files are deleted, or set
aside, as batches of a listing; the bare calls go through a list of names. The contenders take
turns, so that a busy machine is busy for all of them; the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from benchmarks.list_local import Best, make_tree
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.quarantine import held_files, quarantine_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Tree:
    """Files to get rid of, as they were listed."""

    folder: str
    files: list[pa.RecordBatch]

    @property
    def places(self) -> QuarantineFolders:
        return QuarantineFolders.of([(self.folder, f"{self.folder}/_lakesweep/quarantine/plan-1")])

    def paths(self) -> list[str]:
        return [path for batch in self.files for path in batch["path"].to_pylist()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time deletes of local files.")
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results = contest(arguments.files, arguments.rounds)
    show(arguments.files, results)


def unlink(tree: Tree) -> int:
    paths = tree.paths()
    for path in paths:
        os.unlink(path)  # noqa: PTH108
    return len(paths)


def rename(tree: Tree) -> int:
    """All files into one other tree; folders are made as they are met."""
    target = f"{tree.folder}/_lakesweep/quarantine/plan-1"
    made: set[str] = set()
    paths = tree.paths()
    for path in paths:
        moved = target + path
        folder = moved.rpartition("/")[0]
        if folder not in made:
            Path(folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        os.rename(path, moved)  # noqa: PTH104
    return len(paths)


def delete(tree: Tree, *, verify: bool) -> int:
    return count(delete_files(Stores(), tree.files, verify=verify), "deleted")


def move(tree: Tree) -> int:
    return count(quarantine_files(Stores(), tree.files, tree.places), "quarantined")


def bring_back(tree: Tree) -> int:
    return count(restore_files(Stores(), held_files(Stores(), tree.files, tree.places)), "restored")


def count(batches: Iterable[pa.RecordBatch], outcome: str) -> int:
    return sum(batch["outcome"].to_pylist().count(outcome) for batch in batches)


#: What is timed, and what must be done to the tree before.
Contender = tuple[Callable[[Tree], int], Callable[[Tree], object] | None]

CONTENDERS: dict[str, dict[str, Contender]] = {
    "delete": {
        "os.unlink": (unlink, None),
        "delete_files": (partial(delete, verify=False), None),
        "delete_files, verified": (partial(delete, verify=True), None),
    },
    "set aside": {
        "os.rename": (rename, None),
        "set_aside": (move, None),
        "restore": (bring_back, move),
    },
}


def contest(files: int, rounds: int) -> dict[str, dict[str, Best]]:
    results = {title: dict.fromkeys(group, Best()) for title, group in CONTENDERS.items()}
    for _ in range(rounds):
        for title, group in CONTENDERS.items():
            for name, (action, before) in group.items():
                with TemporaryDirectory() as folder:
                    wall, cpu = timed(folder, files, action, before)
                results[title][name] = results[title][name].or_less(wall, cpu)
    return results


def timed(
    folder: str,
    files: int,
    action: Callable[[Tree], int],
    before: Callable[[Tree], object] | None,
) -> tuple[float, float]:
    make_tree(Path(folder), files)
    tree = Tree(folder, list(list_files(Stores(), folder + "/")))
    if before is not None:
        before(tree)
    wall, cpu = time.perf_counter(), time.process_time()
    done = action(tree)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert done == files
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir()
    return wall, cpu


def show(files: int, results: dict[str, dict[str, Best]]) -> None:
    print(f"{files:,} files{'files/s':>22}{'wall s':>9}{'CPU s':>8}{'wall':>9}{'CPU':>9}")
    for title, group in results.items():
        print(title)
        first = next(iter(group.values()))
        for name, best in group.items():
            wall, cpu = (
                best.wall_seconds / first.wall_seconds,
                best.cpu_seconds / first.cpu_seconds,
            )
            print(
                f"  {name:24}{files / best.wall_seconds:>8,.0f}{best.wall_seconds:>9.2f}"
                f"{best.cpu_seconds:>8.2f}{wall:>8.2f}x{cpu:>8.2f}x"
            )


if __name__ == "__main__":
    main()
