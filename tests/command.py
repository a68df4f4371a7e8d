"""The command line, run in this process as a shell would run it in another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.main import run


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it wrote on its two streams."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What it wrote as one JSON document."""
        return dict(json.loads(self.out))

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it wrote as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The JSON error on its last line of talk."""
        return dict(json.loads(self.err.splitlines()[-1])["error"])


@dataclass
class Lakesweep:
    """Calls `lakesweep` with a configuration."""

    capture: pytest.CaptureFixture[str]
    config: Path | None = None

    def __call__(self, *words: str, json: bool = True) -> Done:
        self.capture.readouterr()
        options = [*(["--config", str(self.config)] if self.config else [])]
        code = run([*options, *words, *(["--json"] if json else [])])
        captured = self.capture.readouterr()
        return Done(code, captured.out, captured.err)
