"""The service under load: mixed reads at a fixed rate while a run works, and a long list of files.

`python benchmarks/service.py --minutes 10` asks 200 times a second, whether answers come or not,
and measures each answer from the moment it was due: p50 and p99, and the memory of the service over
time. Before that it streams the files of a plan of a million files through the API and through
`lakesweep show --files --json`, and compares rates and peak memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq

#: What a console and a few scripts ask for; repeated in this order.
_READS = (
    "/api/v1/lakes",
    "/api/v1/runs?limit=20",
    "/api/v1/plans/prod",
    "/api/v1/jobs?limit=20",
    "/api/v1/schedules",
    "/api/v1/plans/prod/files?limit=100&verdict=delete",
    "/api/v1/lakes/prod",
    "/health/ready",
)
_CONNECTIONS = 16
_OLD = datetime(2024, 1, 1, tzinfo=UTC)
_CONFIG = """\
engine = "local"
[lakes.prod]
locations = ["{folder}/lake"]
roots = []
[schedules.yearly]
job = "check"
lake = "prod"
cron = "0 0 1 1 *"
"""


@dataclass
class Load:
    """What was seen while requests came at a fixed rate."""

    seconds: list[float] = field(default_factory=list)
    failures: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--files", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakesweep-service-") as name:
        folder = Path(name)
        _prepare(folder, given.files)
        with _serving(folder) as (url, pid):
            figures = {"stream": _stream(folder, url, pid, given.files)}
            figures["load"] = _load(folder, url, pid, given.rate, given.minutes * 60)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def _prepare(folder: Path, files: int) -> None:
    """A lake whose inventory has this many files, and a plan of it."""
    (folder / "lake").mkdir()
    (folder / "lakesweep.toml").write_text(_CONFIG.format(folder=folder))
    paths = [f"{folder}/lake/part={n % 1000:03}/file-{n:08}.parquet" for n in range(files)]
    rows = pa.table(
        {
            "path": paths,
            "size": pa.array(range(files), pa.int64()),
            "modified": pa.array([_OLD] * files, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(rows, folder / "inventory.parquet")
    done = _lakesweep(folder, "plan", "prod", *_inventory(folder), "--quiet")
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr.decode())


def _inventory(folder: Path) -> list[str]:
    return [f"--inventory={folder}/inventory.parquet", "--inventory-time=1h"]


def _command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "lakesweep", "--config", f"{folder}/lakesweep.toml", *words]


def _lakesweep(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(_command(folder, *words), capture_output=True, check=False)


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, int]]:
    """A service on a free port: its address and its process."""
    log = folder / "serve.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            _command(folder, "serve", "--port", "0"), stdout=stream, stderr=stream
        )
        try:
            yield _address(process, log), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        found = re.search(r"listening on (\S+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(log.read_text())


def _stream(folder: Path, url: str, pid: int, files: int) -> dict[str, Any]:
    """All files of the plan, by the API and by the command, in the same run."""
    before = _rss(pid)
    with _watched(pid) as peak:
        began = time.perf_counter()
        lines = _count_lines(f"{url}/api/v1/plans/prod/files")
        api = time.perf_counter() - began
    began = time.perf_counter()
    shown = subprocess.Popen(
        _command(folder, "show", "prod", "--files", "--json", "--quiet"), stdout=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(shown.pid, 0)
    command = time.perf_counter() - began
    return {
        "files": files,
        "lines": lines,
        "api_lines_per_second": round(lines / api),
        "command_lines_per_second": round(files / command),
        "ratio": round(command / api, 2),
        "service_rss_before_mib": before >> 20,
        "service_rss_peak_mib": peak[0] >> 20,
        "command_rss_peak_mib": usage.ru_maxrss >> 10,
    }


def _count_lines(url: str) -> int:
    with urlopen(url) as answer:
        count = 0
        while piece := answer.read(1 << 20):
            count += piece.count(b"\n")
        return count


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The peak memory of a process while the block runs."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], _rss(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _rss(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _load(folder: Path, url: str, pid: int, rate: int, seconds: float) -> dict[str, Any]:
    """Ask at a fixed rate while plans are made, one after the other."""
    load, done = Load(), threading.Event()
    began = time.monotonic()
    others = [
        threading.Thread(target=_keep_planning, args=(folder, url, done)),
        threading.Thread(target=_sample, args=(pid, load, began, done)),
    ]
    for each in others:
        each.start()
    try:
        asyncio.run(_ask(url, load, rate, seconds))
    finally:
        done.set()
        for each in others:
            each.join()
    return _figures(load, seconds)


def _keep_planning(folder: Path, url: str, done: threading.Event) -> None:
    """Have a run under way all the time: plans of the whole inventory."""
    hour = datetime.now(UTC) - timedelta(hours=1)
    wanted = {"lake": "prod", "inventory": f"{folder}/inventory.parquet"}
    body = json.dumps(wanted | {"inventory_time": hour.isoformat()}).encode()
    while not done.is_set():
        job = _json(Request(f"{url}/api/v1/plans", body, _TYPE))
        place = f"{url}/api/v1/jobs/{job['job'].replace('/', '%2F')}"
        while _is_open(place) and not done.wait(0.5):
            pass
        if done.is_set():
            _end(place)


def _end(job: str) -> None:
    """A job outlives its service, and would work on in a folder that is gone."""
    if _is_open(job):
        _json(Request(f"{job}:cancel", b"{}", _TYPE))
    while _is_open(job):
        time.sleep(0.5)


def _is_open(job: str) -> bool:
    return _json(Request(job))["status"] in ("queued", "running")


_TYPE = {"content-type": "application/json"}


def _json(request: Request) -> Any:
    with urlopen(request) as answer:
        return json.load(answer)


def _sample(pid: int, load: Load, began: float, done: threading.Event) -> None:
    while not done.wait(1.0):
        load.memory.append((time.monotonic() - began, _rss(pid)))


async def _ask(url: str, load: Load, rate: int, seconds: float) -> None:
    """An open loop: what is due is asked for, however long answers take."""
    due: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()
    workers = [asyncio.create_task(_worker(url, due, load)) for _ in range(_CONNECTIONS)]
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        moment = began + number / rate
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        due.put_nowait((moment, _READS[number % len(_READS)]))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)


async def _worker(url: str, due: asyncio.Queue[tuple[float, str] | None], load: Load) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while (given := await due.get()) is not None:
        moment, path = given
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        await writer.drain()
        if await _read(reader) != 200:
            load.failures += 1
        load.seconds.append(time.perf_counter() - moment)
    writer.close()


async def _read(reader: asyncio.StreamReader) -> int:
    """The status of an answer, after its whole body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    if length:
        await reader.readexactly(int(length[1]))
    else:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split(b" ", 2)[1])


def _figures(load: Load, seconds: float) -> dict[str, Any]:
    times = sorted(load.seconds)
    rows = [size for _, size in load.memory]
    fifth = max(1, len(rows) // 5)
    return {
        "requests": len(times),
        "failures": load.failures,
        "per_second": round(len(times) / seconds, 1),
        "p50_ms": round(1_000 * times[len(times) // 2], 1),
        "p99_ms": round(1_000 * times[int(len(times) * 0.99)], 1),
        "max_ms": round(1_000 * times[-1], 1),
        "rss_first_fifth_mib": max(rows[:fifth]) >> 20,
        "rss_last_fifth_mib": max(rows[-fifth:]) >> 20,
        "rss_by_minute_mib": [size >> 20 for at, size in load.memory if int(at) % 60 == 30],
    }


if __name__ == "__main__":
    main()
