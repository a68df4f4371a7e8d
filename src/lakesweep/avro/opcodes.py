"""The instruction set that the schema compiler and the kernels share.

A program is a table of instructions, each (operation, a, b, c). It walks one record from its
first byte to its last, keeps the values of the selected columns and skips the rest. A column's
values go to its slot. Jump targets are byte offsets in the table.
"""

from __future__ import annotations

from typing import Final

WIDTH: Final = 32  # bytes of an instruction

# Skip a value. If b is not negative, the value may be null: it is the other branch of a union of
# two, in which null is branch b.
SKIP_VARINTS: Final = 0  # a numbers
SKIP_BYTES: Final = 1  # a string or bytes
SKIP_FIXED: Final = 2  # a bytes
SKIP_ARRAY_VARINTS: Final = 3  # an array, each item a numbers
SKIP_ARRAY_PAIRS: Final = 4  # an array, each item a number and a string or bytes
SKIP_ARRAY_FIXED: Final = 5  # an array, each item a bytes
LAST_SKIP: Final = SKIP_ARRAY_FIXED

# Keep a value in slot a. If b is 1, the same value is read again for another slot.
KEEP_LONG: Final = 6
KEEP_INT: Final = 7
KEEP_ENUM: Final = 8  # c symbols
KEEP_BOOLEAN: Final = 9
KEEP_FLOAT: Final = 10
KEEP_DOUBLE: Final = 11
LAST_NUMBER: Final = KEEP_DOUBLE
KEEP_BYTES: Final = 12
KEEP_FIXED: Final = 13  # c bytes
LAST_KEEP: Final = KEEP_FIXED

# Finish what a slot holds for this record.
KEEP_NULL: Final = 14  # a null value; c zero bytes stand for it
KEEP_LIST: Final = 15  # the values since the last record are one list
KEEP_NULL_LIST: Final = 16

# Control flow.
END: Final = 17  # the record is complete
JUMP: Final = 18  # to a
UNION: Final = 19  # a branches; as many JUMPs follow
NULL_RUN: Final = 20  # a unions, null first; a + 1 JUMPs follow, by the number of leading nulls
LOOP: Final = 21  # an array or a map begins; its NEXT is at a
NEXT: Final = 22  # body at a; where b is 1, no block of items may be leapt over
CALL: Final = 23  # the routine at a
RETURN: Final = 24

# The results of the kernel.
DONE: Final = 0
FULL: Final = -100  # no room is left for the record; it is walked again when there is
PAST_END: Final = -1
LONG_VARINT: Final = -2
NEGATIVE_LENGTH: Final = -3
NO_SUCH_BRANCH: Final = -4
INT_RANGE: Final = -5
NOT_BOOLEAN: Final = -6
NO_SUCH_SYMBOL: Final = -7
TOO_DEEP: Final = -8
TOO_MANY_ITEMS: Final = -9
WRONG_ARRAY_SIZE: Final = -10
LEFT_OVER: Final = -11
NEGATIVE_COUNT: Final = -12
BAD_SYNC: Final = -13
TOO_MANY_RECORDS: Final = -14
FILE_ENDS: Final = -15

REASONS: Final = {
    PAST_END: "a value runs beyond the end of its block",
    LONG_VARINT: "a number has more than 10 bytes",
    NEGATIVE_LENGTH: "a length is negative",
    NO_SUCH_BRANCH: "a union names a branch that the schema does not have",
    INT_RANGE: "an int has more than 32 bits",
    NOT_BOOLEAN: "a boolean is neither 0 nor 1",
    NO_SUCH_SYMBOL: "an enum names a symbol that the schema does not have",
    TOO_DEEP: "records are nested too deeply",
    TOO_MANY_ITEMS: "an array or a map says that it has more items than bytes are left",
    WRONG_ARRAY_SIZE: "the items of an array or a map do not fill its size in bytes",
    LEFT_OVER: "bytes are left after the last record of a block",
    NEGATIVE_COUNT: "a number of records is negative",
    TOO_MANY_RECORDS: "a block says that it has more records than bytes",
    FILE_ENDS: "the file ends inside a block",
    BAD_SYNC: "the mark after a block is not the file's own",
}
