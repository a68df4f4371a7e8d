"""The kernel that looks for hidden names in paths."""

from __future__ import annotations

from typing import Any

from lakesweep.native import address, kernel, load8

_SLASH = ord("/")
_DOT = ord(".")
_UNDERSCORE = ord("_")


@kernel
def find_hidden(data: Any, offsets: Any, starts: Any, hidden: Any) -> None:
    """Tell of each path whether a name behind its start begins with a dot or an underscore."""
    for row in range(len(hidden)):
        place, end = address(data) + offsets[row] + starts[row], address(data) + offsets[row + 1]
        is_first, hidden[row] = True, False
        while place < end and not hidden[row]:
            character = load8(place)
            hidden[row] = is_first and character in (_DOT, _UNDERSCORE)
            is_first = character == _SLASH
            place += 1
