"""What operations exchange with their callers."""

from __future__ import annotations

import pytest

from lakesweep.errors import RefusedError
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction


def test_nothing_is_reported_by_default() -> None:
    with SILENT_IO.progress.task("listed") as task:
        task.advance(1)
    SILENT_IO.notify("a notice")
    assert not SILENT_IO.verbose


def test_notices_reach_the_caller() -> None:
    heard: list[str] = []
    Interaction(notify=heard.append).notify("a notice")
    assert heard == ["a notice"]


def test_a_caller_refuses_with_an_error() -> None:
    def refuse(preview: int) -> None:
        raise RefusedError("confirmation", f"{preview} files are too many")

    confirm: Confirm[int] = refuse
    with pytest.raises(RefusedError, match="3 files"):
        confirm(3)
