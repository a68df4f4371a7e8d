"""The demo on Spark, as the README shows it."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from pathlib import Path

from tests.transcript import Step

README = Path(__file__).parents[2] / "README.md"
STORY = [
    *("plan", "show", "explain", "apply", "check", "quarantine"),
    *("schedule", "serve", "schedule", "lakes", "approve", "schedule", "quarantine"),
    *("plan", "apply"),
]


def test_the_readme_shows_the_story_as_it_is_told(tmp_path: Path) -> None:
    shown = README.read_text().partition("```text\n")[2].partition("\n```")[0]
    told = Step(f"{sys.executable} -m lakesweep demo", f"…\n{shown}", 0)
    done = told.run(tmp_path, os.environ)
    assert (done.returncode, told.matches(done.stdout)) == (0, True), done.stdout
    lines = done.stdout.splitlines()
    commands = [line.split()[2] for line in lines if line.startswith("$ lakesweep")]
    assert [word for word, _ in groupby(commands)] == STORY
    assert sum(line.endswith(" the same") for line in lines) == 9
