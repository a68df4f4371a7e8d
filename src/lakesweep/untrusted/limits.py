"""How large foreign files may be, and one way for whatever fails while they are read.

The section `[limits]` of the configuration sets these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakesweep.errors import DamagedError, LakesweepError, LimitError

_MIB, _GIB = 2**20, 2**30
_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The most that reading one foreign file may take.

    The defaults are far above real files, of which metadata files of 500 MB are the largest known,
    and low enough that one file cannot exhaust a machine.
    """

    #: A file that is read as a whole, as it is stored.
    file_bytes: int = _GIB
    #: The same file after decompression.
    inflated_bytes: int = _GIB
    #: One block or page after decompression. Writers make blocks of 64 kB, pages of 1 MB. Up to
    #: 2 GiB, 32-bit offsets suffice for what a block holds.
    block_bytes: int = 512 * _MIB


DEFAULT_LIMITS = ReadLimits()


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
