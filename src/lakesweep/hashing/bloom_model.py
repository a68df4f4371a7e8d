"""The false-positive rate of a blocked Bloom filter, computed exactly.

Keys fall into blocks at random: the number of keys in a block has a Poisson distribution. i
keys set i·k bits, some of them twice; the distribution of distinct bits follows from throwing
one after the other. A key that was never added passes if all its k bits are set. The textbook
formula ignores blocks and promises a rate two to four times too low.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

BLOCK_BITS = 512
#: The false-positive rates that a filter can be built for.
MIN_FPP = 1e-9
MAX_FPP = 1e-2
MOST_FUNCTIONS = 28
_FEWEST_FUNCTIONS = 4
_MOST_KEYS = 160

Floats = npt.NDArray[np.float64]


def fpp_of(keys_per_block: float, functions: int) -> float:
    """The false-positive rate if blocks hold this many keys on average."""
    chances = _poisson(keys_per_block)
    # Blocks fuller than the table count as if every lookup were a false positive.
    return float(chances @ _errors()[functions]) + max(0.0, 1.0 - float(chances.sum()))


@cache
def fit(fpp: float) -> tuple[float, int]:
    """The most keys per block, and the number of functions that allows it."""
    if not MIN_FPP <= fpp <= MAX_FPP:
        raise ValueError(f"a false-positive rate lies between {MIN_FPP} and {MAX_FPP}")
    fitting = (
        (_most_keys(fpp, functions), functions)
        for functions in range(_FEWEST_FUNCTIONS, MOST_FUNCTIONS + 1)
    )
    return max(fitting)


def fpp_of_blocks(counts: npt.NDArray[np.int64], functions: int) -> float:
    """The rate of a filled filter; `counts[n]` is the number of blocks with n bits set."""
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    return float(counts @ shares**functions / counts.sum())


def distinct_of_blocks(counts: npt.NDArray[np.int64], functions: int) -> float:
    """How many distinct keys were added, estimated from the bits that are still zero."""
    blocks = int(counts.sum())
    zeros = float(counts @ np.arange(BLOCK_BITS, -1, -1)) / (blocks * BLOCK_BITS)
    if not zeros:
        return math.inf
    # The probability that one key leaves a given bit of its block zero is (1 - 1/512)^k.
    return -math.log(zeros) * blocks / (1 - (1 - 1 / BLOCK_BITS) ** functions)


def _most_keys(fpp: float, functions: int) -> float:
    low, high = 0.0, float(_MOST_KEYS) / 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fpp_of(middle, functions) <= fpp else (low, middle)
    return low


def _poisson(mean: float) -> Floats:
    keys = np.arange(_MOST_KEYS + 1)
    with np.errstate(divide="ignore"):
        logarithms = keys * np.log(mean) if mean else np.where(keys, -np.inf, 0.0)
    return np.exp(logarithms - mean - _log_factorials())


@cache
def _log_factorials() -> Floats:
    return np.array([math.lgamma(keys + 1) for keys in range(_MOST_KEYS + 1)])


@cache
def _errors() -> dict[int, Floats]:
    """For each number of functions, the rate in a block with 0, 1, 2… keys."""
    thrown = _distinct_bits()
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    return {
        functions: thrown[: _MOST_KEYS * functions + 1 : functions] @ shares**functions
        for functions in range(_FEWEST_FUNCTIONS, MOST_FUNCTIONS + 1)
    }


def _distinct_bits() -> Floats:
    """Row t: the distribution of the number of bits set after t throws."""
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    rows = np.zeros((_MOST_KEYS * MOST_FUNCTIONS + 1, BLOCK_BITS + 1))
    rows[0, 0] = 1.0
    for before, after in pairwise(rows):
        np.multiply(before, shares, out=after)
        after[1:] += before[:-1] * (1 - shares[:-1])
    return rows
