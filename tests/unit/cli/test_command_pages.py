"""The reference of commands says what the help says, and its examples are calls that work."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from tests.command_pages import DOCUMENT, commands, examples, page

ALL = [pytest.param(words, command, id=" ".join(words)) for words, command in commands()]
#: What may follow a command: a pipe, a file, another command, or words on what it is for.
_AFTER = re.compile(r" *[|;>] .*|;.*|   *[a-z].*")


@pytest.mark.parametrize(("words", "command"), ALL)
def test_the_reference_says_what_the_help_says(words: list[str], command: Any) -> None:
    told = page(words, command) in DOCUMENT.read_text(encoding="utf-8")
    assert told, "python -m tests.command_pages writes the reference anew"


@pytest.mark.parametrize(("words", "command"), ALL)
def test_examples_are_calls_of_the_command(words: list[str], command: Any) -> None:
    for line in examples(command):
        call = shlex.split(_AFTER.sub("", line))
        assert call[: len(words) + 1] == ["lakesweep", *words]
        command.make_context("lakesweep", call[len(words) + 1 :], resilient_parsing=False)


def test_no_command_is_left_from_earlier_times() -> None:
    titles = set(re.findall(r"^### `lakesweep (.*)`$", DOCUMENT.read_text("utf-8"), re.MULTILINE))
    known = {" ".join(words) for words, _ in commands()}
    assert {re.sub(r" [\[A-Z].*", "", title) for title in titles} == known
