"""What a job writes: its log lines, its result for programs, and the files that it is given.

The command of a job runs with `--json`: its stdout is the result, kept as it is, so that a client
gets what the local command would have printed. Its stderr is the log, for people.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import LakesweepError
from lakesweep.operations.schedules.jobs import NEEDS_APPROVAL
from lakesweep.progress_board import safe_line
from lakesweep.runs.job_records import JobFailure, JobRecord, JobResultRecord
from lakesweep.runs.live_records import OutputRecord
from lakesweep.store import Link, Realm

#: The record of a job that ended has this many of its last lines.
_TAIL_LINES = 20
#: A longer result is not kept: it is a list of files, which is read where the job ran.
_MOST_RESULT_BYTES = 4 << 20
_PIECE_BYTES = 1 << 16
_ERROR = b'{"error":'


class _FailureLine(msgspec.Struct, frozen=True):
    """How a command with `--json` says what went wrong."""

    error: JobFailure


class JobLog:
    """The last lines that a job wrote, kept in the store with it. One thread adds, one keeps."""

    def __init__(self, realm: Realm, link: Link | None) -> None:
        self._realm = realm
        self._link = link
        self._lock = threading.Lock()
        self._record = OutputRecord()
        self._kept: OutputRecord | None = None

    def add(self, line: str) -> None:
        """One more line."""
        with self._lock:
            self._record = self._record.extended([safe_line(line)])

    def keep(self) -> None:
        """Write the lines to the store, if there are new ones and the store answers."""
        with self._lock:
            record = self._record
        if self._link is None or record is self._kept:
            return
        with suppress(LakesweepError):
            stored = self._realm.objects.fetch(self._link, OutputRecord)
            if stored is not None and self._realm.objects.update(stored, record) is not None:
                self._kept = record

    @property
    def tail(self) -> tuple[str, ...]:
        """The last few lines, for the record of the job itself."""
        with self._lock:
            return self._record.lines[-_TAIL_LINES:]

    @property
    def last_message(self) -> str:
        """The error that a command ended with, or its last line."""
        with self._lock:
            lines = self._record.lines
        told = [line for line in lines if not line.startswith("try:")]
        telling = [line for line in told if line.startswith(("error:", NEEDS_APPROVAL))]
        return (telling or told or [""])[-1]


class JobResult:
    """What a command printed for programs, and the error that it ended with, if it did."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.failure: JobFailure | None = None

    def add(self, piece: bytes) -> None:
        """Some more of it. What is too long is dropped, so that the command never waits."""
        self._size += len(piece)
        if self._size <= _MOST_RESULT_BYTES:
            self._parts.append(piece)

    def keep(self, realm: Realm) -> Link | None:
        """Write it to the store; None if there is nothing to keep."""
        if not self._size and self.failure is None:
            return None
        is_cut = self._size > _MOST_RESULT_BYTES
        # A command that was killed may have left half a line.
        whole, line_end, _ = b"".join(self._parts).rpartition(b"\n")
        text = "" if is_cut else (whole + line_end).decode(errors="replace")
        record = JobResultRecord(text=text, is_cut=is_cut, failure=self.failure)
        return Link(realm.objects.write(realm.new_id(), record).id)


def read_in_threads(
    process: subprocess.Popen[bytes], log: JobLog, result: JobResult
) -> Sequence[threading.Thread]:
    """Read both streams of a command while it runs; the threads end with them."""
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        threading.Thread(target=_read_lines, args=(process.stderr, log, result), daemon=True),
        threading.Thread(target=_read_result, args=(process.stdout, result), daemon=True),
    ]
    for reader in readers:
        reader.start()
    return readers


def _read_lines(stream: IO[bytes], log: JobLog, result: JobResult) -> None:
    for line in stream:
        failure = _failure(line)
        if failure is None:
            log.add(line.decode(errors="replace"))
            continue
        result.failure = failure
        first, *rest = failure.message.splitlines() or [""]
        for text in (f"error: {first}", *rest, *([f"try: {failure.hint}"] if failure.hint else [])):
            log.add(text)


def _failure(line: bytes) -> JobFailure | None:
    """The error that a line tells; None if it is any other line."""
    if not line.startswith(_ERROR):
        return None
    with suppress(msgspec.MsgspecError):
        return typed_json(line, _FailureLine).error
    return None


def _read_result(stream: IO[bytes], result: JobResult) -> None:
    while piece := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
        result.add(piece)


@contextmanager
def written_files(job: JobRecord) -> Iterator[Path | None]:
    """The files that came with a job, in a folder that is removed after it; None without any."""
    if not job.files:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lakesweep-job-") as folder:
        for name, text in job.files.items():
            (Path(folder) / name).write_text(text)
        yield Path(folder)
