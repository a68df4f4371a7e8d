"""Planning and applying over a local lake: the real commands, beside Iceberg's own clean-up.

    python -m benchmarks.sweep                        # 50,000, 100,000 and 500,000 live files
    python -m benchmarks.sweep --files 20000          # and as many orphans
    python -m benchmarks.sweep --columns 0            # manifests without statistics
    scripts/setup-peers && python -m benchmarks.sweep --rounds 2

The lake is one Iceberg table in 1,000 partitions, with an orphan for each of its files. `lakesweep
plan` runs first, then again, with what the first one marked at hand, then `apply`; each as a new
process, on both engines. Iceberg's `remove_orphan_files` runs on the same tree in turn with them,
as a dry run and as a real one, if `scripts/setup-peers` has fetched it. Orphans that were deleted
are planted again for the next one. A bare walk and a bare loop of `unlink` are the disk's limits.

Seconds are those of whole processes, the best of the rounds. On a busy machine they say little by
themselves; CPU seconds, of all processes together, say more. Memory is the peak of what is resident
in this round: of the command, of the Java that it starts, in which driver and executors share a
heap, and of the Python workers below that.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.list_local import walk
from benchmarks.sweep_lake import Lake
from benchmarks.sweep_run import Run, run

_PEERS = Path(".peers").resolve()
_COMMAND = Path(sys.executable).with_name("lakesweep")
_ENGINES = ("spark", "local")
_AGE_SECONDS = 20 * 86_400
_CONFIG = """
[lakes.bench]
locations = ["{lake}"]
[[lakes.bench.roots]]
type = "iceberg-metadata"
files = ["{metadata}"]
[spark]
master = "local[{cores}]"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Time plans and applies over a local lake.")
    parser.add_argument("--files", type=int, nargs="+", default=[50_000, 100_000, 500_000])
    parser.add_argument("--columns", type=int, default=20, help="columns with statistics")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    has_peer = _PEERS.is_dir() and not arguments.no_peer
    if not has_peer:
        print("without Iceberg's own clean-up: scripts/setup-peers fetches it")
    tables = []
    for files in arguments.files:
        with TemporaryDirectory() as name:
            lake = Lake(Path(name, "lake"), files, arguments.columns, time.time() - _AGE_SECONDS)
            bench = Bench(lake, Path(name), arguments.cores, has_peer=has_peer)
            for _ in range(arguments.rounds):
                bench.hold()
            bench.show()
            tables.append(bench)
    if len(tables) > 1:
        show_growth(tables)


@dataclass
class Bench:
    """Everybody's turns on one lake."""

    lake: Lake
    folder: Path
    cores: int
    has_peer: bool
    runs: dict[str, list[Run]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def hold(self) -> None:
        """One round."""
        self._make()
        self._limit("a bare walk", self._walk)
        plans = {engine: self._plan(engine, "first") for engine in _ENGINES[:1]}
        self._peer("dry")
        self._plan("spark", "second")
        plans["local"] = self._plan("local", "first")
        self._plan("local", "second")
        for engine in _ENGINES:
            self._apply(engine, plans[engine])
            self.lake.plant()
        self._peer("real")
        self.lake.plant()
        self._limit("a bare unlink", self._unlink)

    def show(self) -> None:
        files = self.lake.referenced + self.lake.live
        print(f"\n{self.lake.live:,} live files and as many orphans, {self.lake.rounds} manifests")
        show_limits(self.limits, {"a bare walk": files, "a bare unlink": self.lake.live})
        print(f"{'':24}{'seconds':>9}{'files/s':>11}{'CPU s':>8}", end="")
        print(f"{'MB: driver':>12}{'Java':>7}{'workers':>9}{'to Iceberg':>13}{'CPU':>8}")
        for name in self.runs:
            count = self.lake.live if name.startswith(("apply", "Iceberg real")) else files
            self._show_run(name, count)
        self._show_phases()

    def best(self, name: str) -> Run:
        return min(self.runs[name], key=lambda run: run.seconds)

    def _make(self) -> None:
        if not self.lake.folder.exists():
            self.lake.make()
        self.lake.plant()
        for engine in _ENGINES:
            folder = self.folder / engine
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            places = {"lake": self.lake.folder, "metadata": self.lake.metadata}
            (folder / "lakesweep.toml").write_text(_CONFIG.format(**places, cores=self.cores))

    def _plan(self, engine: str, which: str) -> str:
        command = ["plan", "bench", "--engine", engine, "--json"]
        plan = json.loads(self._run(f"plan, {engine}, {which}", engine, command).output)
        assert plan["totals"]["delete"]["unreferenced"]["files"] == self.lake.live, plan["totals"]
        assert plan["totals"]["keep"]["referenced"]["files"] == self.lake.referenced
        return str(plan["plan"])

    def _apply(self, engine: str, plan: str) -> None:
        guards = ["--override", "first-run", "--override", "share"]
        command = ["apply", plan, "--engine", engine, "--yes", "--json", *guards]
        applied = json.loads(self._run(f"apply, {engine}", engine, command).output)
        assert applied["deleted"] == self.lake.live, applied

    def _run(self, name: str, engine: str, arguments: list[str]) -> Run:
        return self._keep(name, run([_COMMAND, "-q", *arguments], self.folder / engine))

    def _peer(self, how: str) -> None:
        if not self.has_peer:
            return
        task = "orphans-dry" if how == "dry" else "orphans"
        script = Path(__file__).with_name("iceberg_peer.py")
        (jar,) = _PEERS.glob("jars/*.jar")
        python = _PEERS / "venv" / "bin" / "python"
        command: list[str | Path] = [python, script, jar, self.lake.folder, str(self.cores), task]
        found = self._keep(f"Iceberg {how} run", run(command, self.folder))
        assert json.loads(found.output)["files"] == self.lake.live, found.output

    def _keep(self, name: str, done: Run) -> Run:
        self.runs.setdefault(name, []).append(done)
        cpu = done.usage.cpu_seconds
        print(f"{name}: {done.seconds:.1f} s, {cpu:.1f} s of CPU", file=sys.stderr, flush=True)
        return done

    def _limit(self, name: str, action: Callable[[], None]) -> None:
        start = time.perf_counter()
        action()
        seconds = time.perf_counter() - start
        self.limits[name] = min(seconds, self.limits.get(name, seconds))

    def _walk(self) -> None:
        files = self.lake.referenced + self.lake.live
        assert walk(str(self.lake.folder), look=True) == files

    def _unlink(self) -> None:
        for path in self.lake.orphans():
            os.unlink(path)  # noqa: PTH108  the system's own call

    def _show_run(self, name: str, count: int) -> None:
        found = self.best(name)
        memory = [found.usage.peaks[kind] / 1e6 for kind in ("driver", "java", "workers")]
        cpu = min(each.usage.cpu_seconds for each in self.runs[name])
        print(f"{name:24}{found.seconds:>9.1f}{count / found.seconds:>11,.0f}{cpu:>8.1f}", end="")
        print(f"{memory[0]:>12,.0f}{memory[1]:>7,.0f}{memory[2]:>9,.0f}", end="")
        peer = f"Iceberg {'real' if name.startswith('apply') else 'dry'} run"
        if peer not in self.runs or name.startswith("Iceberg"):
            print()
            return
        theirs = min(each.usage.cpu_seconds for each in self.runs[peer])
        print(f"{self.best(peer).seconds / found.seconds:>11.1f} x{theirs / cpu:>6.1f} x")

    def _show_phases(self) -> None:
        print(
            f"\n{'where the time goes':24}{'start':>9}{'list':>8}{'mark':>8}{'judge':>8}{'end':>8}"
        )
        for name in self.runs:
            if name.startswith("plan"):
                print(f"{name:24}" + "".join(f"{took:>8.1f}" for took in phases(self.best(name))))
        for engine in _ENGINES:
            first, second = (self._mark_seconds(engine, which) for which in ("first", "second"))
            print(f"the first mark to the second, {engine}: {first / second:.1f} x")

    def _mark_seconds(self, engine: str, which: str) -> float:
        return min(phases(run)[2] for run in self.runs[f"plan, {engine}, {which}"])


def phases(run: Run) -> tuple[float, ...]:
    """Seconds until a plan began to list, of its phases, and from its last one to the end."""
    plan: dict[str, Any] = json.loads(run.output)
    steps = [plan["seconds"][name] for name in ("list", "mark", "judge")]
    judged = datetime.fromisoformat(plan["created"]).timestamp()
    return judged - sum(steps) - run.began, *steps, run.ended - judged


def show_limits(limits: dict[str, float], counts: dict[str, int]) -> None:
    for name, seconds in limits.items():
        print(f"{name:24}{seconds:>9.1f}{counts[name] / seconds:>11,.0f}")


def show_growth(benches: list[Bench]) -> None:
    """Peak memory on the largest lake to that on the smallest."""
    least, most = benches[0], benches[-1]
    print(f"\nmemory, {most.lake.live:,} live files to {least.lake.live:,}")
    for name in most.runs:
        small, large = (bench.best(name).usage.peaks for bench in (least, most))
        drivers = [peaks["driver"] + peaks["java"] for peaks in (small, large)]
        print(f"{name:24}driver and Java {drivers[1] / drivers[0]:.2f} x", end="")
        print(f", driver alone {large['driver'] / small['driver']:.2f} x")


if __name__ == "__main__":
    main()
