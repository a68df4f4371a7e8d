"""How large foreign files may be. The section `[limits]` of the configuration sets these values."""

from __future__ import annotations

from dataclasses import dataclass

_MIB, _GIB = 2**20, 2**30


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
