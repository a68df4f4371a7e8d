"""The last bytes of a table file, which say of what format it is and where its parts are."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.errors import DamagedError, FormatError, TruncatedError
from lakesweep.lakefs.blocks import uvarint

FOOTER_BYTES = 53
MAGIC = bytes.fromhex("f7cff485b741e288")
#: The only checksum, and the only version, that lakeFS ever wrote.
CRC32C = 1
VERSION = 2

_CHECKSUMS = {0: "no checksum", 2: "xxHash", 3: "xxHash64", 4: "XXH3"}
_OTHERS = {
    bytes.fromhex("57fb808b247547db"): "LevelDB",
    bytes.fromhex("f09faab3f09faab3"): "Pebble",
}
_HINT = "lakeFS writes no such files: compare it with a copy, or with what the server reads"


@dataclass(frozen=True, slots=True)
class Footer:
    """Where the metaindex and the index are: (first byte, length) each."""

    metaindex: tuple[int, int]
    index: tuple[int, int]


def read_footer(path: str, data: bytes) -> Footer:
    """Parse the footer; FormatError for other formats than that of lakeFS."""
    if not data:
        raise TruncatedError(path, "it is empty")
    if data[-8:] != MAGIC:
        other = _OTHERS.get(data[-8:])
        if other is not None:
            raise FormatError(
                path, f"it is a table of {other}, which has another format", hint=_HINT
            )
        raise DamagedError(path, "it does not end as a table file does")
    if len(data) < FOOTER_BYTES:
        raise TruncatedError(path, "it is shorter than its own footer")
    return _parse(path, data[-FOOTER_BYTES:])


def _parse(path: str, footer: bytes) -> Footer:
    version = int.from_bytes(footer[41:45], "little")
    if version != VERSION:
        raise FormatError(path, f"its format has version {version}, not {VERSION}", hint=_HINT)
    if footer[0] != CRC32C:
        name = _CHECKSUMS.get(footer[0], f"checksum {footer[0]}")
        raise FormatError(path, f"it has {name} instead of CRC32C", hint=_HINT)
    numbers, at = [], 1
    for _ in range(4):
        number, at = uvarint(footer, at)
        numbers.append(number)
    if at > 41 or any(footer[at:41]) or max(numbers) >= 2**62:
        raise DamagedError(path, "its footer cannot be read")
    return Footer((numbers[0], numbers[1]), (numbers[2], numbers[3]))
