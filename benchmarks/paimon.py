"""Cleaning Paimon tables: the real commands, beside Paimon's own in Java.

    scripts/setup-paimon-readers                       # fetches Java's; without it ours runs alone
    python -m benchmarks.paimon                        # 200,000 live files, 50,000 orphans
    python -m benchmarks.paimon --files 20000 --orphans 5000 --snapshots 100
    python -m benchmarks.paimon --engines local        # without Spark

One table in 2,000 partitions with orphans between its files, and one of 400 snapshots that all but
one of are to expire. Each contender is a new process, on the same tree in turn; orphans that were
deleted are planted again for the next one. Beside the commands the same work is timed inside of
this process, where nothing has to be loaded first. A bare walk and a bare loop of `unlink` are the
disk's limits.

Java comes twice: 1.4.2 in a process of its own, which calls what its procedures call in local mode,
and the procedures of 0.9.0 on Spark. `call` are the seconds of the call alone. Memory is the peak
of what is resident. On a busy machine seconds say little by themselves; CPU seconds say more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.list_local import walk
from benchmarks.paimon_table import BigTable, Littered, write_history
from benchmarks.sweep_run import run
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.orphans.orphan_files import plan_orphans
from lakesweep.storage.stores import Stores

_COMMAND = Path(sys.executable).with_name("lakesweep")
_READERS = Path(".paimon-readers").resolve()
_AGE_SECONDS = 20 * 86_400
_EXPIRE = ["--retain-min", "1", "--retain-max", "1", "--limit", "1000000", "--settle", "0s"]
_ROUNDS_INSIDE = 3
_ENGINES = ["local", "spark"]


@dataclass
class Figures:
    """What a contender took: the least seconds and CPU seconds of all rounds, the most memory."""

    seconds: float = float("inf")
    cpu_seconds: float = float("inf")
    peak_bytes: int = 0
    call_seconds: float = float("inf")

    def add(self, seconds: float, cpu_seconds: float, peak_bytes: int, call_seconds: float) -> None:
        self.seconds = min(self.seconds, seconds)
        self.cpu_seconds = min(self.cpu_seconds, cpu_seconds)
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        self.call_seconds = min(self.call_seconds, call_seconds)


@dataclass
class Contest:
    """All contenders at one task, by their names; `ours` are the lines that others are held to."""

    title: str
    count: int
    figures: dict[str, Figures] = field(default_factory=dict)

    def add(self, name: str, *taken: float, peak_bytes: int = 0) -> None:
        seconds, cpu_seconds, call_seconds = taken
        figures = self.figures.setdefault(name, Figures())
        figures.add(seconds, cpu_seconds, peak_bytes, call_seconds)
        print(f"{self.title}, {name}: {seconds:.1f} s, CPU {cpu_seconds:.1f} s", file=sys.stderr)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Time what is done in this process."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        seconds = time.perf_counter() - wall
        self.add(name, seconds, time.process_time() - cpu, seconds)

    def run(self, name: str, command: list[str | Path], folder: Path) -> dict[str, Any]:
        """Time a command, which prints a document."""
        done = run(command, folder)
        answer: dict[str, Any] = json.loads(done.output.splitlines()[-1])
        call = answer.get("call", done.seconds)
        usage = done.usage
        self.add(name, done.seconds, usage.cpu_seconds, call, peak_bytes=usage.peak_bytes)
        return answer

    def show(self) -> None:
        print(f"\n{self.title}")
        heads = {"seconds": 9, "/s": 10, "CPU": 8, "call": 8, "MB": 8, "to ours": 10, "by CPU": 8}
        print(" " * 28 + "".join(f"{head:>{width}}" for head, width in heads.items()))
        first = next(found for name, found in self.figures.items() if name.startswith("lakesweep"))
        for name, it in self.figures.items():
            print(f"{name:28}{it.seconds:>9.2f}{self.count / it.seconds:>10,.0f}", end="")
            print(
                f"{it.cpu_seconds:>8.2f}{it.call_seconds:>8.2f}{it.peak_bytes / 1e6:>8,.0f}", end=""
            )
            cpu = it.cpu_seconds / first.cpu_seconds
            print(f"{it.seconds / first.seconds:>8.2f} x{cpu:>6.2f} x")


def ours(*words: str | Path) -> list[str | Path]:
    return [_COMMAND, "paimon", *words, "--json", "-q"]


def java(how: str, warehouse: Path) -> list[str | Path]:
    """Java by itself. It needs a Hadoop, which is that of Spark."""
    hadoop = next(_READERS.glob("spark/lib/*/site-packages/pyspark/jars"))
    program = Path(__file__).with_name("PaimonPeer.java").resolve()
    return ["java", "-Xmx4g", "-cp", f"{_READERS}/bundle/*:{hadoop}/*", program, warehouse, how]


def spark(how: str, warehouse: Path) -> list[str | Path]:
    """Java's procedures on Spark."""
    (jar,) = _READERS.glob("jars/*.jar")
    program = Path(__file__).with_name("paimon_peer.py").resolve()
    cores = str(os.cpu_count())
    return [_READERS / "spark/bin/python", program, jar, warehouse, cores, how]


PEERS: dict[str, Callable[[str, Path], list[str | Path]]] = {
    "Java 1.4.2, local": java,
    "Java 0.9.0 on Spark": spark,
}


@dataclass
class Bench:
    """Everybody's turns."""

    folder: Path
    arguments: argparse.Namespace
    has_peers: bool

    def orphans(self) -> list[Contest]:
        """Dry runs, then real ones."""
        made = BigTable(self.folder / "orphans", time.time() - _AGE_SECONDS)
        littered = Littered(made, self.arguments.files, self.arguments.orphans)
        littered.make()
        planted = littered.plant()
        files = self.arguments.files + len(planted)
        dry = Contest(f"orphans, dry run over {files:,} files", files)
        real = Contest(f"orphans, {len(planted):,} deleted", len(planted))
        for _ in range(self.arguments.rounds):
            self._dry(dry, littered)
            planted = self._real(real, littered, planted)
        return [dry, real]

    def _dry(self, contest: Contest, littered: Littered) -> None:
        table, warehouse = littered.table.path, littered.table.folder
        for _ in range(_ROUNDS_INSIDE):
            with contest.inside("a bare walk"):
                walk(str(warehouse), look=True)
            with contest.inside("plan_orphans, in a process"):
                assert plan_inside(table) == littered.orphans
        for engine in self.arguments.engines:
            command = ours("orphans", table, "--dry-run", "--engine", engine)
            found = contest.run(f"lakesweep, {engine}", command, self.folder)
            assert littered.found_by(found["found"])
        for name, peer in self._peers():
            contest.run(name, peer("dry", warehouse), self.folder)

    def _real(self, contest: Contest, littered: Littered, planted: list[str]) -> list[str]:
        with contest.inside("a bare loop of unlink"):
            for path in planted:
                os.unlink(path)  # noqa: PTH108  the system's own call
        for engine in self.arguments.engines:
            littered.plant()
            command = ours("orphans", littered.table.path, "--yes", "--engine", engine)
            found = contest.run(f"lakesweep, {engine}", command, self.folder)
            assert littered.found_by(found["deleted"])
        for name, peer in self._peers():
            planted = littered.plant()
            contest.run(name, peer("real", littered.table.folder), self.folder)
            assert not any(map(os.path.exists, planted))
        return littered.plant()

    def expiry(self) -> list[Contest]:
        made = BigTable(self.folder / "history", time.time() - _AGE_SECONDS)
        write_history(made, self.arguments.snapshots)
        gone = self.arguments.snapshots - 1
        contest = Contest(f"{gone:,} snapshots expired", gone)
        for _ in range(self.arguments.rounds):
            with self._copied(made.folder) as copy:
                command = ours(
                    "expire-snapshots", copy / "db.db" / "t", *_EXPIRE, "--settle", "0s", "--yes"
                )
                found = contest.run("lakesweep", command, self.folder)
                assert found["expired_snapshots"] == gone
            for name, peer in self._peers():
                with self._copied(made.folder) as copy:
                    contest.run(name, peer("expire", copy), self.folder)
                    assert len(list(copy.glob("db.db/t/snapshot/snapshot-*"))) == 1
        return [contest]

    @contextmanager
    def _copied(self, warehouse: Path) -> Iterator[Path]:
        copy = self.folder / "copy"
        shutil.copytree(warehouse, copy)
        yield copy
        shutil.rmtree(copy)

    def _peers(self) -> list[tuple[str, Callable[[str, Path], list[str | Path]]]]:
        return list(PEERS.items()) if self.has_peers else []


def plan_inside(table: Path) -> int:
    opened = PaimonTable.open(Stores(), str(table))
    with plan_orphans(TableGroup((opened,)), datetime.now(UTC) - timedelta(days=1)) as plan:
        return plan.total_files


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the cleaning of Paimon tables.")
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--orphans", type=int, default=50_000)
    parser.add_argument("--snapshots", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", nargs="+", default=_ENGINES, choices=_ENGINES)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    has_peers = _READERS.is_dir() and not arguments.no_peer
    if not has_peers:
        print("without Paimon's own clean-up: scripts/setup-paimon-readers fetches it")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} processes, {os.cpu_count()} cores")
    with TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments, has_peers)
        for contest in [*bench.orphans(), *bench.expiry()]:
            contest.show()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} processes")


if __name__ == "__main__":
    main()
