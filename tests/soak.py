"""Random tests for as long as asked: `make soak SECONDS=3600 SEED=7`.

Rounds follow each other, each with the next seed, until the time is over or a round fails. A test
that has begun is ended, so the last round may take a minute longer.
"""

from __future__ import annotations

import argparse
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

_FOLDERS = ("tests/property", "tests/fuzz")
_ROUND_SECONDS = 120
_MOST_EFFORT = 20
_TRIED = re.compile(r"^random tests tried (.+)$", re.MULTILINE)
_FIGURE = re.compile(r"(\d[\d,]*) (\w+)")


@dataclass
class Soak:
    """Rounds of random tests, and what they tried together."""

    seconds: float
    seed: int
    tests: list[str]
    tried: Counter[str] = field(default_factory=Counter)

    def run(self) -> int:
        """The exit code of the first round that failed, or 0."""
        _say(f"seed {self.seed}, {self.seconds:g} seconds")
        begin = time.monotonic()
        for number in count():
            left = begin + self.seconds - time.monotonic()
            if left <= 0:
                return self._end(number, 0)
            if code := self._round(self.seed + number, left):
                return self._end(number + 1, code)
        raise AssertionError

    def _round(self, seed: int, seconds: float) -> int:
        command = [
            *(sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"),
            *("--numprocesses", "auto", "--dist", "worksteal", "--timeout", "0"),
            *("--hypothesis-seed", str(seed), "--effort", str(self._effort())),
            *("--seconds", str(seconds), *self.tests),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        self.add(done.stdout)
        if done.returncode:
            sys.stdout.write(done.stdout)
            _say(f"this round had seed {seed}; try: make soak SEED={seed}")
        return done.returncode

    def add(self, shown: str) -> None:
        """Add what a round says that it tried."""
        for figures in _TRIED.findall(shown):
            for number, name in _FIGURE.findall(figures):
                self.tried[name] += int(number.replace(",", ""))

    def _effort(self) -> int:
        """A round costs seconds to start, so a long soak has long ones."""
        return max(1, min(_MOST_EFFORT, int(self.seconds / _ROUND_SECONDS)))

    def _end(self, rounds: int, code: int) -> int:
        tried = (f"{number:,} {name}" for name, number in self.tried.items())
        figures = ", ".join(tried) or "nothing"
        _say(f"seed {self.seed}, rounds {rounds}, {'failed' if code else 'passed'}: {figures}")
        return code


def _say(line: str) -> None:
    sys.stdout.write(f"soak: {line}\n")
    sys.stdout.flush()


def main() -> int:
    """Soak as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("tests", nargs="*", default=[*filter(_exists, _FOLDERS)])
    asked = parser.parse_args()
    return Soak(asked.seconds, asked.seed, asked.tests).run()


def _exists(folder: str) -> bool:
    return Path(folder).is_dir()


if __name__ == "__main__":
    sys.exit(main())
