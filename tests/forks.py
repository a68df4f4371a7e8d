"""Processes that need not import everything again.

They are forked from one that has loaded what tests need, and has opened nothing. Python has one
such process, and the first to use it decides what it loads. So this is decided here, for all tests,
before any of them starts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.command import Done

_PRELOADED = (
    "__main__",
    "tests.conftest",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "sqlite3",
    "lakesweep.avro.decoder_kernels",
    "lakesweep.bench.processes",
    "lakesweep.hashing.hash_set_kernels",
    "lakesweep.hashing.siphash",
    "lakesweep.iceberg.mark_levels",
    "lakesweep.iceberg.sql_catalog",
    "lakesweep.marks.cover_kernel",
    "lakesweep.storage.local.folder_kernel",
    "lakesweep.store.backends.sql.backend",
    "lakesweep.sweep.paths.path_kernels",
    "tests.mortal",
    "tests.warm_start",
)
_PATIENCE_SECONDS = 280


def preload_forks() -> None:
    """Decide what the process loads that others are forked from; it starts when it is needed."""
    forkserver.set_forkserver_preload([*_PRELOADED])
    # The library under test would choose what it needs itself, and no more.
    vars(forkserver)["set_forkserver_preload"] = lambda _: None


@dataclass(frozen=True)
class Command:
    """`lakesweep` with some words, as a process of its own that runs in a folder."""

    process: ForkServerProcess
    streams: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.is_alive()

    def finish(self) -> Done:
        """Wait for its end; what it wrote."""
        self.process.join(_PATIENCE_SECONDS)
        code = self.process.exitcode
        out, err = ((self.streams / name).read_text() for name in ("out", "err"))
        assert code is not None, f"does not end:\n{out}{err}"
        return Done(code, out, err)


@contextmanager
def started(folder: Path, *words: str) -> Iterator[Command]:
    """A command that runs while the block does; in a session of its own, as in a shell."""
    context = multiprocessing.get_context("forkserver")
    with TemporaryDirectory(prefix="streams-") as streams:
        arguments = (words, folder, Path(streams), dict(os.environ))
        process = context.Process(target=_run, args=arguments)
        process.start()
        try:
            yield Command(process, Path(streams))
        finally:
            process.kill()
            process.join()


def run_command(folder: Path, *words: str) -> Done:
    with started(folder, *words) as command:
        return command.finish()


def _run(words: tuple[str, ...], folder: Path, streams: Path, environment: dict[str, str]) -> None:
    from lakesweep.cli.main import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(streams / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
    sys.argv = ["lakesweep", *words]
    main()
