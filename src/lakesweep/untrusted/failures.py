"""One way for whatever goes wrong while a foreign file is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakesweep.errors import DamagedError, LakesweepError, LimitError

_LONGEST_REASON = 500


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn any exception inside into an error of ours that names the file."""
    try:
        yield
    except LakesweepError:
        raise
    except Exception as error:
        raise read_failure(path, error) from error


def read_failure(path: str, error: Exception) -> LakesweepError:
    """What an exception means for the file that was being read.

    Libraries raise any type for damaged input: a decoder may run out of memory, overflow, or hit
    an assertion of its own. To us it is always the same: this file cannot be read.
    """
    match error:
        case LakesweepError():
            return error
        case MemoryError():
            return LimitError(path, "needs more memory than there is")
        case RecursionError():
            return LimitError(path, "is nested too deeply")
    text = f"cannot be read: {type(error).__name__}: {error}"
    return DamagedError(path, text[:_LONGEST_REASON])
