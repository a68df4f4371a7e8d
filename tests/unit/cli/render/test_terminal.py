from __future__ import annotations

import io
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from typing_extensions import Buffer

from lakesweep.cli.render.terminal import (
    Colour,
    OutputClosedError,
    OutputFailedError,
    paint,
    write,
)
from lakesweep.untrusted.text import printable


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.RawIOBase):
    """Breaks at the first write, and swallows what Python's own clean-up writes later."""

    broken = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        if not self.broken:
            self.broken = True
            raise BrokenPipeError
        return memoryview(data).nbytes


def test_words_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", Screen())
    assert paint("error:", Colour.RED) == "\x1b[31merror:\x1b[0m"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", Screen())
    assert paint("error:", Colour.RED) == "error:"


def test_words_are_plain_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert paint("error:", Colour.RED) == "error:"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 日本", "plain ä 日本"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\rb\tc\x7f", "a\\rb\\tc\\x7f"),
        ("right\u202eleft", "right\\u202eleft"),
        ("two\nlines\u2028", "two\\nlines\\u2028"),
        ("lone \ud800", "lone \\ud800"),
    ],
)
def test_control_characters_are_shown_by_their_code(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_full_disk_behind_stdout_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with suppress(OSError), Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OutputFailedError, match="cannot be written: No space left"):
            write(b"data")


def test_a_reader_that_went_away_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(ClosedPipe())))
    with pytest.raises(OutputClosedError):
        write(b"data")
