"""How large the parts of an index may become."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes may lie where.

    An index without stripes is embedded as a whole, up to `embedded`. One with stripes embeds no
    more than `buffer`, since every commit writes that again; what overflows waits in the pending
    run, and all that waits goes to the stripes at once when the run would outgrow `pending`.
    Descriptors are embedded up to `root` and lie in pages beyond that. `block` is how finely runs
    are cut inside.
    """

    embedded: int = 32 * 1024
    buffer: int = 3 * 1024
    pending: int = 96 * 1024
    stripe: int = 128 * 1024
    page: int = 32 * 1024
    root: int = 1024
    block: int = 1024


LIMITS = Limits()
