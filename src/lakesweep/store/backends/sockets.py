"""A look at a connection that nobody uses, without asking the server."""

from __future__ import annotations

import select


def is_readable(descriptor: int) -> bool:
    """Whether something waits to be read: on an idle connection it is mostly its end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)
    return bool(poll.poll(0))
