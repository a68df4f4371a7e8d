"""The error codes that kernels return, and what they mean."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
SHORT_BLOCK: Final = -1
BAD_RESTARTS: Final = -2
PAST_END: Final = -3
NO_SUCH_PREFIX: Final = -4
SHORT_KEY: Final = -5
WRONG_KIND: Final = -6
WRONG_ORDER: Final = -7
BAD_ENVELOPE: Final = -8
BAD_RECORD: Final = -9
UNKNOWN_TYPE: Final = -10
BAD_HANDLE: Final = -11
TOO_LARGE: Final = -12
TOO_MANY: Final = -13
BAD_SIZE: Final = -14

REASONS: Final = {
    SHORT_BLOCK: "a block is shorter than its own bookkeeping",
    BAD_RESTARTS: "the restart points of a block are not where its keys restart",
    PAST_END: "a key or a value runs beyond the end of its block",
    NO_SUCH_PREFIX: "a key shares more with the key before it than that one has",
    SHORT_KEY: "a key is shorter than its own trailer",
    WRONG_KIND: "a record is not a plain value, as all records of lakeFS are",
    WRONG_ORDER: "the keys are not in ascending order",
    BAD_ENVELOPE: "a value is not a pair of identity and data",
    BAD_RECORD: "a record is not valid protobuf",
    UNKNOWN_TYPE: "an entry has an address of an unknown type",
    BAD_HANDLE: "the index names a block in a way that cannot be read",
    TOO_LARGE: "it is larger than any range may be",
    TOO_MANY: "it has more records than it says, or longer ones",
    BAD_SIZE: "a size or a count is negative, or has more than 63 bits",
}
