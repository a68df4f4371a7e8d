"""Who holds a lock: a process that can be recognised, on this machine also after its death.

A store can be copied, and its copy knows the same runs as the original. So that a run is recorded
as ended says nothing about the lock that bears its name. Only the process that holds the lock can
be asked: it is gone if this machine, since it was started, had that process and has it no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.runs.sessions import holder_name
from lakesweep.untrusted.documents import JSON_ERRORS
from lakesweep.untrusted.text import printable

#: No lock is larger. Whoever may write to a location can put anything there.
MOST_BYTES = 4_096
_LONGEST_TEXT = 200

#: The locks that runs of this process hold, by their nonces.
_held: set[str] = set()


class LockRecord(msgspec.Struct, frozen=True):
    """What a lock says. `process` and `nonce` recognise the holder, `holder` is for people.

    `lease_until` is the end of the run's lease when the lock was written, in microseconds: a store
    whose lease of that run ends earlier is an old copy of the one that the run uses.
    """

    run: str
    holder: str = ""
    process: str = ""
    nonce: str = ""
    lease_until: int = 0

    def __str__(self) -> str:
        return printable(f"{self.run} ({self.holder})" if self.holder else self.run)


@contextmanager
def lock_nonce() -> Iterator[str]:
    """A name for a lock that this process holds while the block runs."""
    nonce = token_hex(8)
    _held.add(nonce)
    try:
        yield nonce
    finally:
        _held.discard(nonce)


def new_record(run: str, nonce: str, lease_until: int) -> LockRecord:
    """What a lock of this process says."""
    return LockRecord(run, holder_name(), this_process(), nonce, lease_until)


def parse_record(run: str, data: bytes) -> LockRecord:
    """The record in a lock; one that only has the name of the run if it is something else."""
    try:
        found = typed_json(data, LockRecord)
    except JSON_ERRORS:
        text = data[:_LONGEST_TEXT].decode(errors="replace").strip()
        return LockRecord(text or run)
    return found if found.run == run and len(found.holder) <= _LONGEST_TEXT else LockRecord(run)


def is_gone(record: LockRecord) -> bool:
    """Whether the process that wrote a record certainly ended. False if that cannot be known."""
    mine = this_process()
    if not mine or not record.process:
        return False
    if record.process == mine:
        return record.nonce not in _held
    machine, _, process = record.process.rpartition("/")
    pid, _, start = process.partition("-")
    if machine != mine.rpartition("/")[0] or not (pid.isdecimal() and 0 < int(pid) < 2**31):
        return False
    return not _is_running(int(pid)) or _start_of(int(pid)) not in (start, None)


def this_process() -> str:
    """A name that no other process on this machine has or had; empty if the system tells none.

    Containers share a kernel but not their numbers of processes, so their namespace counts too.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space, pid = Path("/proc/self/ns/pid").readlink(), os.getpid()
        return f"{boot}/{space}/{pid}-{_start_of(pid)}"
    return ""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def _start_of(pid: int) -> str | None:
    """When a process was started, in ticks since the system was; None if that is not shown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in "ZX" else fields[19]  # a zombie has ended
