"""SIGTERM as a stop: what is being deleted comes to a clean end, and nothing new is begun.

Kubernetes, systemd and schedulers end a process by SIGTERM and wait for some
time. Where nothing is being deleted, the signal interrupts the command like Ctrl-C. While
files are deleted, it only asks for a stop: the request or batch that is under way is finished and
its outcome stored. A second signal interrupts at once.

A run that is cancelled by a word in the store stops in the same way.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TerminatedError(KeyboardInterrupt):
    """The process was told to end. Handled like an interrupt."""


class _State:
    """What this process knows of the signal. Only the main thread changes it."""

    def __init__(self) -> None:
        self.is_requested = False
        self.is_heeded = False
        self.own_signals = 0
        self.signals = 0
        self.reason = "ended by SIGTERM"
        self.listeners: list[Callable[[], None]] = []
        self.deferrals = 0


_state = _State()


def heed_termination() -> None:
    """Take SIGTERM for a stop from now on; for the main thread of a command."""
    signal.signal(signal.SIGTERM, _terminate)
    _state.is_heeded = True


def request_termination(reason: str) -> None:
    """Ask this process to end as SIGTERM does, and say why; any thread may call it.

    In a process that does not heed SIGTERM, such as a notebook or a server, only what is being
    deleted stops: its owner decides about the rest.
    """
    if _state.is_heeded:
        _state.reason = reason
        _state.own_signals += 1
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _tell_listeners()


def is_requested() -> bool:
    """Whether the process was told to end."""
    return _state.is_requested


def is_cancelled() -> bool:
    """Whether the process was told to end by a word in the store, and by no signal."""
    return _state.is_requested and not _state.signals


def termination_reason() -> str:
    """Why the process was told to end."""
    return _state.reason


def is_due() -> bool:
    """Whether the process was told to end, and nothing but the caller sees to it."""
    return _state.is_requested and not _state.listeners


@contextmanager
def stop_by(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` when the process is told to end while the block runs, and interrupt nothing.

    The block is expected to end soon after by itself. The listener runs on a thread of its own.
    """
    _state.listeners.append(listener)
    try:
        yield
    finally:
        _state.listeners.remove(listener)


@contextmanager
def deferred() -> Iterator[None]:
    """Interrupt nothing while the block runs, which looks at `is_due` and raises afterwards."""
    _state.deferrals += 1
    try:
        yield
    finally:
        _state.deferrals -= 1


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    is_stopping, _state.is_requested = _state.is_requested, True
    if _state.own_signals:
        _state.own_signals -= 1
    else:
        _state.signals += 1
        if is_stopping and _state.signals == 1:
            return  # the process was cancelled before, and comes to its end
    if _state.signals > 1 or not (_state.listeners or _state.deferrals):
        raise TerminatedError(_state.reason)
    _tell_listeners()


def _tell_listeners() -> None:
    for listener in [*_state.listeners]:
        # Not here: the interrupted code may hold locks that the listener needs.
        threading.Thread(target=listener, daemon=True, name="termination").start()
