"""Servers as processes of their own, which end together with the tests."""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_START_SECONDS = 200.0
_STOP_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1
_MEMORY = Path("/dev/shm")
#: More than all tests keep there at once.
_MEMORY_BYTES = 4 << 30
# Nobody is given these for an outgoing connection.
_PORTS = range(20_000, 32_000)


def keep_files_in_memory() -> None:
    """Let pytest make its folders in memory, where nobody waits for a disk.

    Whatever is to survive a crash is synced, tens of thousands of times in all tests together.
    """
    if not _MEMORY.is_dir() or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder in memory where there is one: what a server keeps there need not wait for a disk."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with TemporaryDirectory(prefix=f"{name}-", dir=memory) as folder:
        yield Path(folder)


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    announcement: str,
    *,
    user: str | None = None,
    stop: signal.Signals = signal.SIGKILL,
    environment: Mapping[str, str] | None = None,
) -> Iterator[re.Match[str]]:
    """Run a server until the block ends; yields what its log says once it is ready.

    `stop` ends the server, also when the tests are killed and cannot do it themselves.
    """
    library = ctypes.CDLL(None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env=environment,
            user=user,
            extra_groups=None if user is None else [],
            preexec_fn=lambda: library.prctl(_PR_SET_PDEATHSIG, stop),  # noqa: PLW1509
        )
    try:
        yield _await(process, log, announcement)
    finally:
        _end(process, stop)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, for servers that cannot choose one."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def is_root() -> bool:
    return os.geteuid() == 0


def _await(process: subprocess.Popen[bytes], log: Path, announcement: str) -> re.Match[str]:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(announcement, log.read_text(errors="replace"))
        if found:
            return found
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')}")


def _end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    process.send_signal(stop)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
